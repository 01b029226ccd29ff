//! What the embedded Coder refuses, word for word as a real one was recorded.

use reqwest::Method;
use serde_json::{Value, json};

use super::recordings::text;
use crate::harness::{Api, CREATE, LocalSite, TEMPLATE, fixture, read};
use crate::stub::shape::assert_same_shape;
use crate::stub::shape::{assert_recorded, assert_same};

const ABSENT: &str = "8b75af5c-0000-4000-8000-000000000000";
const ORGANIZATIONS: &str = "/api/v2/organizations";

#[tokio::test]
async fn credentials_and_ids_are_refused_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    let api = local.api();
    assert_same("209", &read(api.bare(Method::GET, "/api/v2/workspaces")).await.unwrap());
    assert_same("207", &Api::new(&local.url, "bad-token").get(ORGANIZATIONS).await);
    let unknown = Api::new(&local.url, "0123456789-0123456789012345678901").get(ORGANIZATIONS).await;
    assert_eq!((unknown.status, &unknown.body["detail"]), (401, &json!("API key is invalid.")));
    assert_same("210", &api.get("/api/v2/nonexistent").await);
    assert_same("211", &api.get(&format!("/api/v2/workspaces/{ABSENT}")).await);
    assert_same("212", &api.get("/api/v2/workspaces/not-a-uuid").await);
    assert_same("213", &api.get(&format!("/api/v2/workspacebuilds/{ABSENT}/parameters")).await);
    assert_same("214", &api.get("/api/v2/organizations/coder/templates/nope").await);
    assert_same("215", &api.get(&format!("/api/v2/workspaceagents/{ABSENT}/watch-metadata")).await);
    assert_same("101", &api.get("/api/v2/users/me/workspace/nope").await);
    assert_same("102", &api.get("/api/v2/users/nobodyhere/workspace/agent-one").await);
    let cookie =
        api.bare(Method::POST, CREATE).header("Cookie", format!("coder_session_token={}", local.token));
    let refused = read(cookie).await.unwrap();
    assert_eq!(refused.status, 400);
    assert!(text(&refused.body).starts_with("CSRF error encountered"), "{}", refused.body);
    let foreign = api.request(Method::GET, ORGANIZATIONS).header("Origin", "https://evil.example");
    assert_eq!(read(foreign).await.unwrap().status, 403);
    local.coder.stop().await;
}

#[tokio::test]
async fn creates_are_refused_as_recorded_and_leave_nothing() {
    let site = LocalSite::new();
    let local = site.start().await;
    let api = local.api();
    let template =
        api.get(&format!("/api/v2/organizations/coder/templates/{TEMPLATE}")).await.body["id"].clone();
    assert_eq!(local.create(TEMPLATE, "dup-name", "").await.status, 201);
    for prefix in [
        "217", "218", "219", "220", "221", "222", "223", "224", "225", "226", "227", "228", "229", "232",
        "237", "248",
    ] {
        let recorded = fixture(prefix);
        let mut body = recorded.raw["request"]["body"].clone();
        body["template_id"] = template.clone();
        let path = text(&recorded.raw["request"]["path"]).replace("/users/", "/organizations/coder/members/");
        assert_same(prefix, &api.post(&path, &body).await);
    }
    assert_recorded("240", &api.post(CREATE, &json!({ "name": "tm", "template_id": ABSENT })).await);
    assert_same("241", &api.post(CREATE, &json!({ "name": "tm", "template_id": "fleet" })).await);
    assert_same("242", &api.post(CREATE, &json!({ "name": "tm" })).await);
    let both = json!({ "name": "tm", "template_id": template, "template_version_id": template });
    assert_recorded("243", &api.post(CREATE, &both).await);
    let preset = json!({ "name": "tmp", "template_id": template, "template_version_preset_id": ABSENT });
    assert_same("244", &api.post(CREATE, &preset).await);
    assert_recorded("245", &read(api.request(Method::POST, CREATE).body("{not json")).await.unwrap());
    assert_same("246", &read(api.request(Method::POST, CREATE)).await.unwrap());
    assert_eq!(api.get("/api/v2/workspaces").await.body["count"], 1);
    local.coder.stop().await;
}

#[tokio::test]
async fn a_required_parameter_is_asked_for_as_recorded() {
    let site = LocalSite::new().project(crate::harness::project("here", None));
    let local = site.start().await;
    let refused = local.create("here", "nowhere", "").await;
    let mut expected = fixture("233").body().clone();
    expected["validations"][0]["field"] = json!("fleet_mcp_directory");
    assert_eq!((refused.status, refused.body), (400, expected));
    local.coder.stop().await;
}

#[tokio::test]
async fn values_that_a_parameter_does_not_allow_are_refused_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    let template = local.api().get(&format!("/api/v2/organizations/coder/templates/{TEMPLATE}")).await.body;
    let create = async |name: &str, value: &str| {
        let values = json!([{ "name": name, "value": value }]);
        let body = json!({ "name": "agent", "template_id": template["id"], "rich_parameter_values": values });
        let refused = local.api().post(CREATE, &body).await;
        (refused.status, refused.body["message"].clone(), refused.body["validations"][0].clone())
    };
    // The parameters are other ones than on the recorded server, the words are the same.
    let expected = |prefix: &str, replaced: &[(&str, &str)]| {
        let recorded = fixture(prefix).body().to_string();
        let text = replaced.iter().fold(recorded, |text, (old, new)| text.replace(old, new));
        let body: Value = serde_json::from_str(&text).unwrap();
        (400, body["message"].clone(), body["validations"][0].clone())
    };
    let option = [("\"role\"", "\"fleet_mcp_role\"")];
    assert_eq!(create("fleet_mcp_role", "wizard").await, expected("234", &option));
    let pattern = [
        ("agent_spec", "fleet_mcp_url"),
        ("^[a-z0-9-]{1,40}$", "^(https?://[^ ]+)?$"),
        ("BAD SPEC", "ftp://x"),
    ];
    assert_eq!(create("fleet_mcp_url", "ftp://x").await, expected("235", &pattern));
    assert_eq!(create("fleet_mcp_url", "http://127.0.0.1:3001").await.0, 201);
    local.coder.stop().await;
}

#[tokio::test]
async fn app_status_reports_answer_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("agent-one").await;
    let agent = Api::new(&local.url, &agent_token(&site));
    let path = "/api/v2/workspaceagents/me/app-status";
    for prefix in ["109", "110", "111", "112", "113", "114", "115", "116", "117", "118", "119", "120", "121"]
    {
        let body = fixture(prefix).raw["request"]["body"].clone();
        assert_same(prefix, &agent.patch(path, &body).await);
    }
    let body = fixture("122").raw["request"]["body"].clone();
    assert_same("122", &local.api().patch(path, &body).await);
    assert_same("123", &Api::new(&local.url, ABSENT).patch(path, &body).await);
    let shown = local.api().get("/api/v2/users/me/workspace/agent-one").await.body;
    let recorded = fixture("124");
    assert_same_shape("124", &recorded.body()["latest_app_status"], &shown["latest_app_status"]);
    let said = |workspace: &Value| -> Vec<String> {
        let statuses = &workspace["latest_build"]["resources"][0]["agents"][0]["apps"][0]["statuses"];
        statuses.as_array().unwrap().iter().map(|status| text(&status["message"]).to_owned()).collect()
    };
    let n_recorded = said(recorded.body()).len();
    assert_eq!(said(&shown)[..n_recorded], said(recorded.body())[..]);
    local.coder.stop().await;
}

#[tokio::test]
async fn reports_longer_than_any_agent_needs_are_refused_and_the_last_hundred_are_kept() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("agent-one").await;
    let agent = Api::new(&local.url, &agent_token(&site));
    let report = async |message: &str, uri: &str| {
        let body = json!({ "app_slug": "ccw", "state": "working", "message": message, "uri": uri });
        agent.patch("/api/v2/workspaceagents/me/app-status", &body).await
    };
    assert_eq!(report("flood", &"x".repeat(1_900_000)).await.status, 413);
    let refused = report("too long", &"x".repeat(2_049)).await;
    let detail = "URI must be at most 2048 bytes.";
    let expected = json!({
        "message": "URI is too long.",
        "detail": detail,
        "validations": [{ "field": "uri", "detail": detail }],
    });
    assert_eq!((refused.status, refused.body), (400, expected));
    let longest = "x".repeat(2_048);
    for number in 0..101 {
        assert_eq!(report(&format!("report {number}"), &longest).await.status, 200);
    }
    let shown = local.api().get("/api/v2/users/me/workspace/agent-one").await.body;
    let statuses = &shown["latest_build"]["resources"][0]["agents"][0]["apps"][0]["statuses"];
    let kept: Vec<_> = statuses.as_array().unwrap().iter().map(|status| text(&status["message"])).collect();
    let expected: Vec<_> = (1..101).rev().map(|number| format!("report {number}")).collect();
    assert_eq!(kept, expected);
    local.coder.stop().await;
}

/// Only the agent's own process knows it.
fn agent_token(site: &LocalSite) -> String {
    let pid = site.runner();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let mut variables =
        environment.split(|byte| *byte == 0).map(|variable| String::from_utf8_lossy(variable));
    variables.find_map(|variable| variable.strip_prefix("CODER_AGENT_TOKEN=").map(str::to_owned)).unwrap()
}

#[tokio::test]
async fn too_many_requests_for_one_path_are_refused_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    let api = local.api();
    // The count begins anew with each minute: a burst of two limits fills one of them.
    let mut limited = None;
    for _ in 0..1_100 {
        let reply = api.get(ORGANIZATIONS).await;
        if reply.status == 429 {
            limited = Some(reply);
            break;
        }
    }
    let limited = limited.expect("the limit is reached");
    assert_same("338", &limited);
    assert_eq!(
        (&limited.headers["retry-after"], &limited.headers["x-ratelimit-remaining"]),
        (&"60".parse().unwrap(), &"0".parse().unwrap())
    );
    assert_eq!(api.get("/api/v2/templates").await.status, 200);
    assert_eq!(api.get(&format!("{ORGANIZATIONS}?x=1")).await.status, 429);
    let bypass = api.request(Method::GET, ORGANIZATIONS).header("X-Coder-Bypass-Ratelimit", "true");
    assert_recorded("341", &read(bypass).await.unwrap());
    local.coder.stop().await;
}

/// Asks until it is told to wait; a burst of two limits fills one minute.
async fn is_limited(ask: impl AsyncFn(usize) -> u16) -> bool {
    for first in (0..1_100).step_by(50) {
        let asked = (first..first + 50).map(|number| ask(number));
        if futures_util::future::join_all(asked).await.contains(&429) {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn strangers_have_one_count_for_all_paths_they_make_up_and_take_none_from_agents() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("agent-one").await;
    let agent = Api::new(&local.url, &agent_token(&site));
    let stranger =
        async |method: Method, path: &str| read(local.api().bare(method, path)).await.unwrap().status;
    let long = format!("/{}", "x".repeat(5_000));
    assert_eq!(stranger(Method::GET, &long).await, 414);
    assert!(is_limited(async |number| stranger(Method::GET, &format!("/made/up/{number}")).await).await);
    let report_path = "/api/v2/workspaceagents/me/app-status";
    assert!(is_limited(async |_| stranger(Method::PATCH, report_path).await).await);
    let report = json!({ "app_slug": "ccw", "state": "working", "message": "still heard", "uri": "" });
    assert_eq!(agent.patch(report_path, &report).await.status, 200);
    assert!(!is_limited(async |_| stranger(Method::GET, "/api/v2/buildinfo").await).await);
    local.coder.stop().await;
}

#[tokio::test]
async fn app_requests_without_an_app_answer_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("agent-one").await;
    let cookie = format!("coder_session_token={}", local.token);
    let get = async |path: &str, cookie: Option<&str>| {
        let request = local.api().bare(Method::GET, path);
        read(cookie.into_iter().fold(request, |request, cookie| request.header("Cookie", cookie)))
            .await
            .unwrap()
    };
    let pages = [
        ("394", "/@me/agent-one.main/apps/ccw/status"),
        ("397", "/@fleet/agent-one.main/apps/nope/status"),
        ("399", "/@fleet/race-one/apps/ccw/status"),
    ];
    for (prefix, path) in pages {
        let page = get(path, Some(&cookie)).await;
        assert_eq!(
            (page.status, &page.headers["content-type"]),
            (404, &"text/html; charset=utf-8".parse().unwrap()),
            "{prefix}"
        );
        assert!(text(&page.body).contains("<title>404 - Application Not Found"), "{prefix}");
    }
    let bare = get("/@fleet/agent-one.main/apps/ccw", Some(&cookie)).await;
    assert_eq!(
        (bare.status, &bare.headers["location"]),
        (307, &"/@fleet/agent-one.main/apps/ccw/".parse().unwrap())
    );
    let without_token = get("/@fleet/agent-one.main/apps/ccw/status", None).await;
    let recorded = fixture("396");
    let expected = text(&recorded.raw["headers"]["Location"])
        .replace("http://127.0.0.1:7080", &local.url)
        .replace("fleetadmin", "fleet");
    assert_eq!(
        (without_token.status, without_token.headers["location"].to_str().unwrap()),
        (303, expected.as_str())
    );
    let status = get("/@fleet/agent-one/apps/ccw/status", Some(&cookie)).await;
    assert_eq!((status.status, &status.body["status"]), (200, &json!("stable")));
    local.coder.stop().await;
}
