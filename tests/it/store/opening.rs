//! Opening: private files, damage refused untouched, commits that survive a kill.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use fleet_mcp::domain::id::OperationId;
use fleet_mcp::domain::operation::OperationKind;
use fleet_mcp::store::{Accepted, Store, StoreError, StoreOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use uuid::Uuid;

use super::{Home, operation, options, page, report};

const CHILD_STORE: &str = "FLEET_TEST_CHILD_STORE";
const CHILD_TEST: &str = "store::opening::a_child_accepts_operations_until_it_is_killed";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn written_rows_are_there_after_reopening() {
    let home = Home::new().await;
    let agent = home.agent("lasting").await;
    let home = home.reopened().await;
    home.store.ping().await.unwrap();
    assert_eq!(home.store.agents_live().await.unwrap(), vec![agent]);
    assert!(!home.dir.path().join("backups").exists(), "nothing was migrated, so nothing is copied");
}

#[tokio::test]
async fn a_closed_store_does_not_answer() {
    let home = Home::new().await;
    home.store.close().await;
    assert!(home.store.ping().await.is_err());
}

#[tokio::test]
async fn every_database_file_is_for_the_owner_only() {
    let home = Home::new().await;
    home.agent("private").await;
    let files = ["fleet.db", "fleet.db-wal", "fleet.db-shm"].map(|name| home.dir.path().join(name));
    assert_eq!(files.each_ref().map(|file| mode(file)), [0o600; 3]);

    home.store.close().await;
    fs::set_permissions(&files[0], fs::Permissions::from_mode(0o644)).unwrap();
    Store::open(&options(&home.dir)).await.unwrap();
    assert_eq!(mode(&files[0]), 0o600);
}

#[tokio::test]
async fn a_backup_is_a_whole_private_store_and_never_overwrites() {
    let home = Home::new().await;
    let agent = home.agent("copied").await;
    let to = home.dir.path().join("copies").join("copy.db");
    home.store.backup(&to).await.unwrap();
    assert_eq!((mode(&to), mode(to.parent().unwrap())), (0o600, 0o700));
    assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1, "no half copy stays behind");

    let second = home.store.backup(&to).await;
    assert!(matches!(second, Err(StoreError::File { doing: "start backup", .. })), "{second:?}");
    let copy = StoreOptions { path: to, backups: home.dir.path().join("backups") };
    assert_eq!(Store::open(&copy).await.unwrap().agents_live().await.unwrap(), vec![agent]);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let text = "these are notes, not a database\n".repeat(200);
    fs::write(&options.path, &text).unwrap();
    let refusal = Store::open(&options).await.unwrap_err();
    let expected = format!("there is no backup in {}", options.backups.display());
    assert!(matches!(&refusal, StoreError::Corrupt { advice, .. } if *advice == expected), "{refusal:?}");
    assert_eq!(fs::read_to_string(&options.path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_database_is_refused_and_the_newest_backup_named() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let reports: Vec<_> = (0..500).map(|second| report(&agent, "filling pages", second)).collect();
    home.store.journal_add(&reports).await.unwrap();
    let options = options(&home.dir);
    for name in ["fleet-1.db", "fleet-2.db"] {
        home.store.backup(&options.backups.join(name)).await.unwrap();
    }
    home.store.close().await;
    let mut bytes = fs::read(&options.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(&options.path, &bytes).unwrap();

    let refusal = Store::open(&options).await.unwrap_err();
    let (backup, path) = (options.backups.join("fleet-2.db"), options.path.display());
    let expected = format!("stop fleet-mcp, remove {path}-wal and copy {} over {path}", backup.display());
    assert!(matches!(&refusal, StoreError::Corrupt { advice, .. } if *advice == expected), "{refusal:?}");

    fs::copy(&backup, &options.path).unwrap();
    let restored = Store::open(&options).await.unwrap();
    let journal = restored.history_page(agent.id, None, page(1, 1)).await.unwrap().page;
    assert_eq!(journal.total_count, 500, "the advice works");
}

#[tokio::test]
async fn an_empty_file_beside_backups_is_refused_and_the_newest_backup_named() {
    let home = Home::new().await;
    let agent = home.agent("one").await;
    let options = options(&home.dir);
    let backup = options.backups.join("fleet-1.db");
    home.store.backup(&backup).await.unwrap();
    home.store.close().await;
    fs::write(&options.path, "").unwrap();
    let refusal = Store::open(&options).await.unwrap_err();
    let path = options.path.display();
    let expected = format!(
        "{path} is empty, though this data directory was in use before; stop fleet-mcp, remove {path}-wal and copy {} \
         over {path}",
        backup.display()
    );
    assert_eq!((refusal.to_string(), fs::read(&options.path).unwrap()), (expected, Vec::new()));

    fs::copy(&backup, &options.path).unwrap();
    let restored = Store::open(&options).await.unwrap();
    assert_eq!(restored.agents_live().await.unwrap(), vec![agent], "the advice works");
}

#[tokio::test]
async fn an_empty_file_of_a_first_start_that_was_cut_short_becomes_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    fs::write(&options.path, "").unwrap();
    assert_eq!(Store::open(&options).await.unwrap().agents_live().await.unwrap(), vec![]);
}

#[tokio::test]
async fn operations_acknowledged_before_a_kill_are_there_after_it() {
    let home = Home::new().await;
    home.agent("survivor").await;
    home.store.close().await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([CHILD_TEST, "--exact", "--ignored", "--nocapture"])
        .env(CHILD_STORE, home.dir.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    while acknowledged.len() < 20 {
        let line = lines.next_line().await.unwrap().expect("the child goes on until it is killed");
        acknowledged.extend(Uuid::parse_str(&line).ok().map(OperationId));
    }
    child.kill().await.unwrap();

    let store = Store::open(&options(&home.dir)).await.unwrap();
    let open: Vec<OperationId> = store.operations_open().await.unwrap().iter().map(|o| o.id).collect();
    assert_eq!(open[..20], acknowledged[..]);
    assert_eq!(store.integrity().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
#[ignore = "runs in a process of its own, started and killed by the test above"]
async fn a_child_accepts_operations_until_it_is_killed() {
    let dir = std::env::var(CHILD_STORE).expect("started by the test above");
    let dir = Path::new(&dir);
    let options = StoreOptions { path: dir.join("fleet.db"), backups: dir.join("backups") };
    let store = Store::open(&options).await.unwrap();
    let agent = store.agent_newest_by_name("survivor").await.unwrap().unwrap();
    loop {
        let operation = operation(&agent, OperationKind::Stop);
        assert_eq!(store.operation_accept(&operation, None).await.unwrap(), Accepted::New);
        writeln!(std::io::stdout(), "\n{}", operation.id).unwrap();
    }
}
