//! What belongs to the whole machine cannot be changed from inside a workspace.

use std::fs::OpenOptions;

use crate::harness::{Up, as_each_user, skipped};

/// Every write opens or is refused before anything is written.
const OPEN: &str = r#"
open() { (: >>"$1") 2>/dev/null && echo "opened $1"; }
open /proc/sys/kernel/core_pattern
open /proc/sysrq-trigger
unshare -Urmpf --mount-proc sh -c '(: >>/proc/sys/kernel/core_pattern) && echo "opened in another namespace"' 2>/dev/null
# The kernel checks each write to a file that every user may open.
find /proc/sys /proc/irq /proc/bus /proc/fs /sys -type f -writable ! -perm -o+w 2>/dev/null | head -n 3
echo tried
"#;

#[tokio::test]
async fn settings_of_the_kernel_cannot_be_changed() {
    let outside = OpenOptions::new().append(true).open("/proc/sys/kernel/core_pattern");
    if outside.is_err() {
        skipped("as root: settings of the kernel are read-only on this machine");
    }
    as_each_user(async |program| {
        let up = Up::start(&program).await;
        up.agent("mallory").await;
        let tried = up.exec("mallory", OPEN).await;
        assert_eq!(String::from_utf8_lossy(&tried.stdout), "tried\n");
        // What agents read there is still there.
        let read = up.exec("mallory", "cat /proc/sys/kernel/ostype; test -d /sys/kernel && echo there").await;
        assert_eq!(String::from_utf8_lossy(&read.stdout), "Linux\nthere\n");
    })
    .await;
}
