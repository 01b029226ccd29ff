//! Migrations of an existing database: copied first, whole or not at all, never backwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::store::Store;

const NOTES: Step = Step {
    version: 2,
    name: "notes",
    sql: "CREATE TABLE notes (text TEXT NOT NULL) STRICT; INSERT INTO notes VALUES ('new');",
};

fn home() -> (TempDir, StoreOptions) {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
    (dir, options)
}

/// A store of the first schema with one setting in it.
async fn old_store(options: &StoreOptions) {
    let store = Store::open_at(options, &STEPS[..1]).await.unwrap();
    let insert = "INSERT INTO user_config (key, value, set_by, set_at) VALUES ('kept', 'yes', 'operator', 1)";
    sqlx::query(insert).execute(&store.write).await.unwrap();
    store.close().await;
}

async fn kept(store: &Store) -> Option<String> {
    let query = sqlx::query_scalar("SELECT value FROM user_config WHERE key = 'kept'");
    query.fetch_optional(&store.read).await.unwrap()
}

fn with_notes() -> Vec<Step> {
    vec![STEPS[0], NOTES]
}

fn backups(options: &StoreOptions) -> Vec<PathBuf> {
    fs::read_dir(&options.backups).map_or(vec![], |dir| dir.map(|entry| entry.unwrap().path()).collect())
}

async fn tables_named_notes(store: &Store) -> i64 {
    let query = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'notes%'");
    query.fetch_one(&store.read).await.unwrap()
}

#[tokio::test]
async fn a_name_that_one_token_has_becomes_that_tokens_signature_and_a_shared_one_stays() {
    let (_dir, options) = home();
    let store = Store::open_at(&options, &STEPS[..10]).await.unwrap();
    let rows = "INSERT INTO tokens (id, hash, kind, name, created_at) VALUES \
         (x'000102030405060708090a0b0c0d0e0f', x'01', 'manager', 'alone', 0), \
         (x'10', x'02', 'manager', 'shared', 0), (x'11', x'03', 'manager', 'shared', 0); \
         INSERT INTO request_keys VALUES ('alone', 't', 'k', x'00', x'00', 0), ('shared', 't', 'k', x'00', x'00', 0), \
         ('agent:x', 't', 'k', x'00', x'00', 0)";
    sqlx::raw_sql(rows).execute(&store.write).await.unwrap();
    store.close().await;
    let store = Store::open_at(&options, STEPS).await.unwrap();
    let query = sqlx::query_scalar("SELECT principal FROM request_keys ORDER BY principal");
    let signatures: Vec<String> = query.fetch_all(&store.read).await.unwrap();
    assert_eq!(signatures, ["agent:x", "shared", "token:00010203-0405-0607-0809-0a0b0c0d0e0f"]);
    store.close().await;
}

#[tokio::test]
async fn an_existing_database_is_copied_before_it_is_migrated() {
    let (_dir, options) = home();
    old_store(&options).await;
    let store = Store::open_at(&options, &with_notes()).await.unwrap();
    assert_eq!(kept(&store).await, Some("yes".into()));
    assert_eq!(tables_named_notes(&store).await, 1);
    store.close().await;

    let copies = backups(&options);
    assert_eq!(copies.len(), 1);
    assert_eq!(backup::newest(&options.backups), Some(copies[0].clone()));
    assert!(copies[0].to_string_lossy().ends_with("-schema-1.db"), "{copies:?}");
    assert_eq!(fs::metadata(&copies[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let copy = StoreOptions { path: options.path.with_extension("copy"), ..options.clone() };
    fs::copy(&copies[0], &copy.path).unwrap();
    let copy = Store::open_at(&copy, &STEPS[..1]).await.unwrap();
    assert_eq!(kept(&copy).await, Some("yes".into()), "the copy is of the old schema");

    Store::open_at(&options, &with_notes()).await.unwrap();
    assert_eq!(backups(&options), copies, "nothing was pending the second time");
}

#[tokio::test]
async fn a_new_database_is_not_copied() {
    let (_dir, options) = home();
    Store::open_at(&options, &with_notes()).await.unwrap();
    assert_eq!(backups(&options), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_says_where_the_backups_are() {
    let (_dir, options) = home();
    Store::open_at(&options, &with_notes()).await.unwrap().close().await;
    let refusal = Store::open_at(&options, &STEPS[..1]).await.unwrap_err();
    let (path, backups) = (options.path.display(), options.backups.display());
    let expected = format!(
        "{path} was made by a newer fleet-mcp (schema 2, this one supports 1): install that version, or stop \
         fleet-mcp, remove {path}-wal and copy a backup from {backups} over {path}"
    );
    assert_eq!(refusal.to_string(), expected);
}

#[tokio::test]
async fn a_migration_that_fails_leaves_the_old_schema_whole() {
    let (_dir, options) = home();
    old_store(&options).await;
    let broken =
        Step { sql: "CREATE TABLE notes_half (text TEXT) STRICT; INSERT INTO nowhere VALUES (1);", ..NOTES };
    let refusal = Store::open_at(&options, &[STEPS[0], broken]).await.unwrap_err();
    let backup = format!("the state before it is in {}", backups(&options)[0].display());
    assert!(matches!(&refusal, StoreError::Migrate { backup: named, .. } if *named == backup), "{refusal:?}");

    let store = Store::open_at(&options, &STEPS[..1]).await.unwrap();
    assert_eq!(tables_named_notes(&store).await, 0);
    assert_eq!(kept(&store).await, Some("yes".into()));
}

#[tokio::test]
async fn request_keys_of_the_three_old_tables_still_find_what_they_made() {
    let (_dir, options) = home();
    let old = Store::open_at(&options, &STEPS[..5]).await.unwrap();
    let mut connection = old.write.acquire().await.unwrap();
    for sql in [
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO request_keys VALUES ('ann', 'stop_agent', 'k', x'01', x'0a', 7)",
        "INSERT INTO task_keys VALUES ('ann', 'k', x'02', x'0b', 8)",
        "INSERT INTO squad_keys VALUES ('ann', 'k', x'03', x'0c', 9)",
    ] {
        sqlx::query(sql).execute(&mut *connection).await.unwrap();
    }
    drop(connection);
    old.close().await;
    let store = Store::open_at(&options, STEPS).await.unwrap();
    let rows = sqlx::query_as(
        "SELECT tool, key, hex(fingerprint), hex(made_id), created_at FROM request_keys ORDER BY created_at",
    );
    let rows: Vec<(String, String, String, String, i64)> = rows.fetch_all(&store.read).await.unwrap();
    let row = |tool: &str, fingerprint: &str, made: &str, at| {
        (tool.to_owned(), "k".to_owned(), fingerprint.to_owned(), made.to_owned(), at)
    };
    let expected = [
        row("stop_agent", "01", "0A", 7),
        row("start_agent_task", "02", "0B", 8),
        row("start_squad_members", "03", "0C", 9),
    ];
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn agents_from_before_directories_were_kept_have_none() {
    let (_dir, options) = home();
    let old = Store::open_at(&options, &STEPS[..6]).await.unwrap();
    for sql in [
        "INSERT INTO agents (id, name, name_key, project, role, spec, created_at) \
         VALUES (zeroblob(16), 'runs-here', 'runs-here', 'here', 'coder', '', 0)",
        "INSERT INTO sightings VALUES (zeroblob(16), 'idle', NULL, '', 'none', 1, NULL, 0, 1)",
    ] {
        sqlx::query(sql).execute(&old.write).await.unwrap();
    }
    old.close().await;
    let store = Store::open(&options).await.unwrap();
    let agents = store.agents_live().await.unwrap();
    let directories: Vec<_> =
        agents.iter().map(|agent| (agent.name.as_str(), agent.directory.as_deref())).collect();
    assert_eq!(directories, [("runs-here", None)]);
}

#[tokio::test]
async fn totals_that_were_kept_as_metadata_still_count() {
    let (_dir, options) = home();
    let old = Store::open_at(&options, &STEPS[..14]).await.unwrap();
    let good = r#"{"input_tokens":100,"output_tokens":7,"cost_usd":0.25,"run":null}"#;
    let unpriced = r#"{"input_tokens":3,"output_tokens":1,"cost_usd":null,"run":null}"#;
    let absurd = r#"{"input_tokens":18446744073709551615,"output_tokens":1,"cost_usd":1e300}"#;
    for (number, value) in [good, unpriced, absurd, r#"{"input_tokens":1.5}"#, "many"].iter().enumerate() {
        let agent = "INSERT INTO agents (id, name, name_key, project, role, spec, created_at) \
             VALUES ($1, $2, $2, 'here', 'coder', '', 172800000001)";
        let id = vec![u8::try_from(number).unwrap(); 16];
        let insert = sqlx::query(agent).bind(&id).bind(format!("agent-{number}"));
        insert.execute(&old.write).await.unwrap();
        let kept = sqlx::query("INSERT INTO metadata VALUES ($1, 'fleet_mcp_usage', $2, 0)");
        kept.bind(&id).bind(*value).execute(&old.write).await.unwrap();
    }
    old.close().await;
    let store = Store::open(&options).await.unwrap();
    let days = sqlx::query_as(
        "SELECT substr(hex(agent_id), 1, 2), day, input_tokens, output_tokens, cost_micros FROM usage_days \
         WHERE spender = 'agent' AND unknown_runs = 0 ORDER BY agent_id",
    );
    let days: Vec<(String, i64, i64, i64, Option<i64>)> = days.fetch_all(&store.read).await.unwrap();
    let day = |id: &str, input, output, cost| (id.to_owned(), 2, input, output, cost);
    assert_eq!(days, [day("00", 100, 7, Some(250_000)), day("01", 3, 1, None)]);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM metadata").fetch_one(&store.read).await.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn runs_that_are_open_at_the_upgrade_know_their_engine() {
    let (_dir, options) = home();
    let old = Store::open_at(&options, &STEPS[..16]).await.unwrap();
    let runs = [
        ("task a", r#"["claude","-p"]"#),
        ("task b", r#"["sh","-c","read","knowing","FLEET_TOKEN","/f","codex","exec"]"#),
        ("task c", r#"["/opt/fleet-mcp","demo-engine"]"#),
        ("squad member (qa)", r#"["codex","exec"]"#),
        ("verify", r#"["git","log"]"#),
    ];
    let scene = "INSERT INTO agents (id, name, name_key, project, role, spec, created_at) \
         VALUES (x'01', 'otter', 'otter', 'here', 'coder', '', 0); \
         INSERT INTO squads VALUES (x'02', 'p', 'stateful', 'parallel', 0, 1, NULL, 0, NULL); \
         INSERT INTO squad_members (id, squad_id, position, role, task, prompt, agent_id, is_follow_up, chat_id, \
         engine, run_id, status) VALUES (x'03', x'02', 0, 'qa', 't', 'p', x'01', 0, 'thread', 'codex', x'13', 'running')";
    sqlx::raw_sql(scene).execute(&old.write).await.unwrap();
    for (number, (purpose, argv)) in runs.iter().enumerate() {
        let insert = "INSERT INTO runs (id, agent_id, generation, purpose, argv, timeout_ms, state, stdout, stderr, \
             created_at, is_cleared) VALUES ($1, x'01', 1, $2, $3, 1, 'running', 0, 0, 0, 0)";
        let id = vec![0x10 + u8::try_from(number).unwrap()];
        sqlx::query(insert).bind(id).bind(*purpose).bind(*argv).execute(&old.write).await.unwrap();
    }
    old.close().await;
    let store = Store::open(&options).await.unwrap();
    let query = sqlx::query_as("SELECT engine, output, spender, conversation FROM runs ORDER BY id");
    let read: Vec<[Option<String>; 4]> = query
        .fetch_all(&store.read)
        .await
        .unwrap()
        .into_iter()
        .map(|(engine, output, spender, conversation)| [engine, output, spender, conversation])
        .collect();
    let words = |words: [&str; 4]| words.map(|word| (!word.is_empty()).then(|| word.to_owned()));
    let expected = [
        ["claude", "events", "agent", ""],
        ["codex", "events", "agent", ""],
        ["demo", "events", "agent", ""],
        ["codex", "words", "member", "thread"],
        ["", "", "", ""],
    ];
    assert_eq!(read, expected.map(words));
}

#[test]
fn steps_are_numbered_in_rising_order_from_one() {
    let versions: Vec<i64> = STEPS.iter().map(|step| step.version).collect();
    assert_eq!(versions.first(), Some(&1));
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
}
