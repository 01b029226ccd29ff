//! What agents may not see stays out of their sight wherever they move it.

use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Program, Up, as_each_user};

/// A directory of the user who runs the program.
fn directory(program: &Program, name: &str) -> PathBuf {
    let root = program.directory.path();
    let owner = root.metadata().unwrap();
    let path = root.join(name);
    std::fs::create_dir_all(&path).unwrap();
    for made in path.ancestors().take_while(|made| *made != root) {
        chown(made, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    path
}

fn at(program: Program, database: &Path) -> Program {
    program.variable("MCP_DATABASE_PATH", database.to_str().unwrap())
}

/// Reads all that can be read below a directory, and tries to plant a file there.
const LOOK: &str = r#"
for file in "$store"/* "$store"/.[!.]*; do cat "$file" >/dev/null 2>&1 && echo "read ${file##*/}"; done
(echo x >"$store/fleet.db-journal") 2>/dev/null && echo planted
echo looked
"#;

#[tokio::test]
async fn a_store_stays_hidden_after_a_directory_above_it_was_renamed() {
    as_each_user(async |program| {
        let outside = directory(&program, "outside/store");
        let program = at(program, &outside.join("fleet.db"));
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let root = program.directory.path();
        std::fs::rename(root.join("outside"), root.join("moved")).unwrap();
        up.agent("accomplice").await;
        for name in ["mallory", "accomplice"] {
            let look = format!("store={}/moved/store\n{LOOK}", root.display());
            let seen = up.exec(name, &look).await.stdout;
            assert_eq!(String::from_utf8_lossy(&seen), "looked\n", "{name}");
        }
        // Outside of the enclosure the files are readable.
        let store = std::fs::read(root.join("moved/store/fleet.db")).unwrap();
        assert!(store.starts_with(b"SQLite format 3"));
    })
    .await;
}

/// Tries to rename each directory, also with the rights of a namespace of its own. A rename that succeeds is printed
/// and undone.
const RENAME: &str = r#"
for directory in "$@"; do
    mv -T "$directory" "$directory.moved" && echo "moved $directory" && mv -T "$directory.moved" "$directory"
    unshare -Urm sh -c 'umount -l "$1"; mv -T "$1" "$1.moved" && echo "moved $1" && mv -T "$1.moved" "$1"' sh "$directory"
done 2>/dev/null
mkdir "$1/made" && mv "$1/made" "$1/renamed" && rmdir "$1/renamed" && echo tried
"#;

#[tokio::test]
async fn no_directory_above_the_fleets_data_or_the_callers_repository_can_be_renamed() {
    as_each_user(async |program| {
        let above_store = directory(&program, "outside/store").parent().unwrap().to_owned();
        let program = at(program, &above_store.join("store/fleet.db"));
        let up = Up::start_here(&program).await;
        up.agent_with(json!({ "project": "here", "spec": "say hello", "name": "mallory" })).await;
        let above_data = program.directory.path().to_owned();
        let directories = [above_data, above_store, program.repository()];
        let directories = directories.map(|path| format!("'{}'", path.display())).join(" ");
        let tried = up.exec("mallory", &format!("set -- {directories}\n{RENAME}")).await;
        assert_eq!(String::from_utf8_lossy(&tried.stdout), "tried\n");
    })
    .await;
}

#[tokio::test]
async fn a_link_on_the_way_to_the_data_directory_cannot_be_replaced() {
    as_each_user(async |program| {
        let link = program.directory.path().join("link");
        symlink(".", &link).unwrap();
        let program = program.variable("FLEET_DATA_DIR", link.join("data").to_str().unwrap());
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let replace = r#"
            mv -T "$link" "$link.moved" && echo moved && mv -T "$link.moved" "$link"
            rm "$link" && echo removed && ln -s . "$link"
            ln -sfn /tmp "$link" && echo replaced && ln -sfn . "$link"
            test -d "$link/data" && echo tried"#;
        let tried = up.exec("mallory", &format!("link='{}'\n{replace}", link.display())).await;
        assert_eq!(String::from_utf8_lossy(&tried.stdout), "tried\n");
    })
    .await;
}

#[tokio::test]
async fn a_store_beside_other_files_is_refused_before_anything_is_made_there() {
    as_each_user(async |program| {
        let shared = directory(&program, "shared");
        std::fs::write(shared.join("notes.txt"), "mine").unwrap();
        let program = at(program, &shared.join("fleet.db"));
        let output = program.run(&["up", "--port", "0"]).await;
        let shared = shared.canonicalize().unwrap();
        let expected = format!(
            "error: agents could reach the database: {} also contains \"notes.txt\" and cannot be hidden from them; \
             move the database into a directory of its own and set MCP_DATABASE_PATH to its new path\n",
            shared.display()
        );
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()), (Some(1), expected));
        assert!(!shared.join("fleet.db").exists());
    })
    .await;
}

/// Leaves all mounts of the workspace behind, which are what cannot be renamed, and runs `$2` in the directory `$1`.
const BEHIND_ALL_MOUNTS: &str = r#"
exec 9<"$1"
unshare -Urm sh -c '
    mount -t tmpfs none /mnt && cd /mnt && mkdir old
    for directory in /bin /lib /lib64 /usr /proc; do
        if [ -L $directory ]; then cp -P $directory .
        elif [ -d $directory ]; then mkdir .$directory && mount --rbind $directory .$directory; fi
    done
    /usr/sbin/pivot_root . old && umount -l old && cd /proc/self/fd/9 && eval "$1"' sh "$2" 2>&1
"#;

#[tokio::test]
async fn an_agent_that_moves_the_data_directory_while_another_one_starts_shows_it_to_neither() {
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        for name in ["mallory", "accomplice"] {
            up.agent(name).await;
        }
        up.change("accomplice", "stop").await;
        let above = program.directory.path().display();
        let act = async |command: &str| {
            let script = format!("set -- '{above}' '{command}'\n{BEHIND_ALL_MOUNTS}");
            String::from_utf8_lossy(&up.exec("mallory", &script).await.stdout).into_owned()
        };
        assert_eq!(
            act("mkdir other && mv data other/data && ln -s other/data data && echo moved").await,
            "moved\n"
        );
        up.change("accomplice", "start").await;
        up.provisioned("accomplice").await;
        assert_eq!(act("rm data && mv other/data data && echo back").await, "back\n");
        let look =
            format!("cd '{above}'; cat data/*.token other/data/*.token 2>/dev/null; ls data data/workspaces");
        for name in ["mallory", "accomplice"] {
            let seen = String::from_utf8_lossy(&up.exec(name, &look).await.stdout).into_owned();
            assert_eq!(seen, format!("data:\nworkspaces\n\ndata/workspaces:\n{name}\n"), "{name}");
        }
    })
    .await;
}
