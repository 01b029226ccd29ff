//! The fault proxy injects each of its faults, and passes streams and upgrades untouched.

use crate::harness::{
    Api, CREATE, CoderStub, FalseAnswer, FaultProxy, Matches, Pace, ProxyCounts, ProxyFault, Rule, When,
    eventually,
};
use serde_json::{Value, json};
use std::time::Duration;

const INFO: &str = "/api/v2/buildinfo";

struct Setup {
    stub: CoderStub,
    proxy: FaultProxy,
    api: Api,
    template: Value,
}

async fn setup() -> Setup {
    let stub = CoderStub::start(Pace::Instant).await;
    let template = stub.api().get("/api/v2/organizations/coder/templates/fleet").await.body["id"].clone();
    stub.reset_calls();
    let proxy = FaultProxy::start(stub.url()).await;
    let api = Api::new(&proxy.url(), &stub.token());
    Setup { stub, proxy, api, template }
}

impl Setup {
    fn request(&self, name: &str) -> Value {
        let project = json!([{ "name": "project", "value": "alpha" }]);
        json!({ "name": name, "template_id": self.template, "rich_parameter_values": project })
    }

    /// Creates through the proxy; `None` when the answer is lost.
    async fn create(&self, name: &str) -> Option<u16> {
        let reply = self.api.try_post(CREATE, &self.request(name)).await;
        reply.ok().map(|reply| reply.status)
    }

    fn once(&self, kind: ProxyFault) {
        self.proxy.fault(Rule { matches: Matches::call("POST", CREATE), when: When::Nth(1), kind });
    }

    fn names(&self) -> Vec<String> {
        self.stub.workspaces().into_iter().map(|workspace| workspace.name).collect()
    }
}

#[tokio::test]
async fn requests_without_a_fault_pass_and_are_counted() {
    let setup = setup().await;
    let info = setup.api.get(INFO).await.body;
    assert_eq!(info, setup.stub.api().get(INFO).await.body);
    assert_eq!(setup.create("one").await, Some(201));
    assert_eq!(setup.proxy.counts(), ProxyCounts { passed: 2, injected: 0 });
}

#[tokio::test]
async fn answers_are_lost_or_falsified_before_and_after_the_effect() {
    let answer =
        || FalseAnswer { status: 503, content_type: "text/html".to_owned(), body: "<p>no</p>".to_owned() };
    for (fault, status, exists) in [
        (ProxyFault::CutBefore, None, false),
        (ProxyFault::CutAfter, None, true),
        (ProxyFault::CutInBody { bytes: 40 }, None, true),
        (ProxyFault::AnswerBefore(answer()), Some(503), false),
        (ProxyFault::AnswerAfter(answer()), Some(503), true),
    ] {
        let setup = setup().await;
        setup.once(fault.clone());
        let outcome = (setup.create("one").await, !setup.names().is_empty());
        assert_eq!(outcome, (status, exists), "{fault:?}");
        assert_eq!(setup.create("two").await, Some(201), "after {fault:?}");
        assert_eq!(setup.proxy.counts(), ProxyCounts { passed: 1, injected: 1 }, "{fault:?}");
    }
}

#[tokio::test]
async fn a_false_answer_arrives_whole() {
    let setup = setup().await;
    let body = json!({ "message": "Internal server error" }).to_string();
    let answer = FalseAnswer { status: 500, content_type: "application/json".to_owned(), body };
    setup.once(ProxyFault::AnswerBefore(answer));
    let reply = setup.api.post(CREATE, &setup.request("one")).await;
    assert_eq!((reply.status, reply.body), (500, json!({ "message": "Internal server error" })));
}

#[tokio::test]
async fn a_delayed_request_arrives_after_a_later_one() {
    let setup = setup().await;
    setup.once(ProxyFault::Delay(Duration::from_secs(1)));
    let second = async {
        eventually("the first request waits", async || setup.proxy.counts().injected == 1).await;
        setup.create("second").await
    };
    let statuses = tokio::join!(setup.create("first"), second);
    assert_eq!((statuses, setup.names()), ((Some(201), Some(201)), vec!["second".into(), "first".into()]));
}

#[tokio::test]
async fn a_stalled_request_is_neither_answered_nor_passed_on() {
    let setup = setup().await;
    setup.once(ProxyFault::Stall);
    let stalled = eventually("the request stalls", async || setup.proxy.counts().injected == 1);
    tokio::select! {
        status = setup.create("one") => panic!("answered with {status:?}"),
        () = stalled => {}
    }
    assert_eq!(setup.names(), Vec::<String>::new());
}

#[tokio::test]
async fn rules_end_when_cleared() {
    let setup = setup().await;
    let every =
        Rule { matches: Matches::call("GET", INFO), when: When::Every(2), kind: ProxyFault::CutBefore };
    let rule = setup.proxy.fault(every);
    let mut answered = Vec::new();
    for number in 0..6 {
        if number == 4 {
            setup.proxy.clear_faults();
        }
        answered.push(setup.api.try_get(INFO).await.is_ok());
    }
    assert_eq!(answered, [true, false, true, false, true, true]);
    assert_eq!(setup.proxy.fault_hits(rule), 2);
}

#[tokio::test]
async fn a_proxy_that_is_down_refuses_until_it_is_up() {
    let mut setup = setup().await;
    setup.proxy.down().await;
    let refused = setup.api.try_get(INFO).await.expect_err("no process listens");
    assert!(refused.is_connect(), "{refused:?}");
    setup.proxy.up().await;
    assert_eq!(setup.api.get(INFO).await.status, 200);
}
