//! `operations`: what people read of what is under way, and what a cancel sends and says.

use fleet_mcp::view::operation::{OperationCanceled, OperationList, OperationRow};
use insta::assert_snapshot;

use super::Rig;
use super::answers::{days_ago, paging};

const ID: &str = "0190e1a2-0000-7000-8000-000000000001";

fn operation(kind: &str, state: &str, message: Option<&str>) -> OperationRow {
    OperationRow {
        id: ID.into(),
        agent_name: "fix-login".into(),
        project: "setup".into(),
        kind: kind.into(),
        state: state.into(),
        step: "following".into(),
        message: message.map(str::to_owned),
        requested_by: "ci".into(),
        canceled_by: None,
        created_at: days_ago(1),
        updated_at: days_ago(1),
    }
}

#[tokio::test]
async fn operations_are_listed_with_how_far_each_has_come() {
    let rig = Rig::start().await;
    let operations =
        vec![operation("stop", "running", None), operation("create", "failed", Some("the build failed"))];
    rig.answers("GET /operations", &OperationList { operations, paging: paging(2, 1, 1) }).await;
    let told = rig.run("operations list --all --agent fix-login");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

#[tokio::test]
async fn a_cancel_says_what_became_of_the_operation() {
    let rig = Rig::start().await;
    let canceled = OperationCanceled {
        operation: operation("stop", "canceled", Some("its build was canceled")),
        message: "the stop of agent 'fix-login' is canceled: its build was canceled".into(),
        clean_up_operation_id: None,
    };
    rig.answers(&format!("POST /operations/{ID}/cancel"), &canceled).await;
    let told = rig.run(&format!("operations cancel {ID} --wait 20"));
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}
