//! What every Coder refuses, by status code and message.

use fleet_mcp::coder::wire::CreateBuild;
use serde_json::{Value, json};

use super::{Subject, on_every_coder};
use crate::harness::Api;

async fn refusal(api: &Api, path: &str, body: &Value) -> (u16, Value) {
    let reply = api.post(path, body).await;
    (reply.status, reply.body["message"].clone())
}

#[tokio::test]
async fn names_are_unique_without_case_and_have_a_form() {
    on_every_coder(async |subject: &Subject| {
        let made = subject.create().await;
        let organization = subject.template.organization_id;
        let path = format!("/api/v2/organizations/{organization}/members/me/workspaces");
        let create = async |name: &str| {
            let request = serde_json::to_value(subject.request(name).await).unwrap();
            refusal(&subject.api, &path, &request).await
        };
        let upper = made.name.to_uppercase();
        assert_eq!(create(&upper).await, (409, json!(format!("Workspace \"{upper}\" already exists."))));
        for bad in ["a_b", "-a", "a--b", "new", ""] {
            assert_eq!(create(bad).await, (400, json!("Validation failed.")), "{bad}");
        }
    })
    .await;
}

#[tokio::test]
async fn one_build_at_a_time() {
    on_every_coder(async |subject: &Subject| {
        let made = subject.create().await;
        let builds = format!("/api/v2/workspaces/{}/builds", made.id);
        let build = async |word: &str| refusal(&subject.api, &builds, &json!({ "transition": word })).await;
        assert_eq!(build("stop").await, (409, json!("A workspace build is already active.")));
        assert_eq!(build("restart").await, (400, json!("Validation failed.")));
        subject.client.build_cancel(made.latest_build.id).await.unwrap();
        subject.until(made.id, crate::harness::is_over).await;
        subject.build(made.id, &CreateBuild::delete()).await;
    })
    .await;
}

#[tokio::test]
async fn invalid_token_gets_401_and_unknown_ids_get_404() {
    on_every_coder(async |subject: &Subject| {
        let absent = "8b75af5c-0000-4000-8000-000000000000";
        let stranger = Api::new(&subject.url, "0123456789-0123456789012345678901");
        assert_eq!(stranger.get("/api/v2/organizations").await.status, 401);
        for (path, status) in [
            (format!("/api/v2/workspaces/{absent}"), 404),
            (format!("/api/v2/workspacebuilds/{absent}/parameters"), 404),
            (format!("/api/v2/workspaceagents/{absent}/watch-metadata"), 404),
            ("/api/v2/workspaces/not-a-uuid".to_owned(), 400),
            ("/api/v2/workspaces?q=foo:bar".to_owned(), 400),
            ("/api/v2/workspaces?q=template:nope-nope".to_owned(), 200),
            ("/api/v2/nonexistent".to_owned(), 404),
        ] {
            assert_eq!(subject.api.get(&path).await.status, status, "{path}");
        }
    })
    .await;
}
