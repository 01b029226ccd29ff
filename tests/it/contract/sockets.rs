//! What is followed over WebSockets: a workspace, its metadata, the logs of its builds and of its agent.

use std::time::Duration;

use fleet_mcp::coder::wire::CreateBuild;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{Socket, Subject, agent_id, on_every_coder};

const DEADLINE: Duration = Duration::from_secs(60);

/// A frame of JSON, or the words with which the server closed.
#[derive(Debug, PartialEq)]
enum Frame {
    Json(Value),
    Closed(u16, String),
}

async fn next(socket: &mut Socket) -> Frame {
    let next = async {
        loop {
            match socket.next().await.expect("the server says how it ends").unwrap() {
                Message::Text(text) => return Frame::Json(serde_json::from_str(&text).unwrap()),
                Message::Close(Some(frame)) => {
                    return Frame::Closed(frame.code.into(), frame.reason.to_string());
                }
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, next).await.expect("a frame comes")
}

async fn json_frame(socket: &mut Socket) -> Value {
    match next(socket).await {
        Frame::Json(value) => value,
        Frame::Closed(code, reason) => panic!("closed: {code} {reason}"),
    }
}

#[tokio::test]
async fn a_workspace_is_watched_over_a_socket_from_now_to_its_next_change() {
    on_every_coder(async |subject: &Subject| {
        let workspace = subject.create_ready().await;
        let mut socket = subject.socket(&format!("/api/v2/workspaces/{}/watch-ws", workspace.id)).await;
        assert_eq!(json_frame(&mut socket).await["type"], "ping");
        let first = json_frame(&mut socket).await;
        assert_eq!((&first["type"], &first["data"]["id"]), (&json!("data"), &json!(workspace.id)));
        subject.client.build_create(workspace.id, &CreateBuild::stop()).await.unwrap();
        let mut status = Value::Null;
        while status != "stopped" {
            let frame = json_frame(&mut socket).await;
            status = frame["data"]["latest_build"]["status"].clone();
        }
    })
    .await;
}

#[tokio::test]
async fn metadata_is_watched_over_a_socket_with_all_keys_in_each_frame() {
    on_every_coder(async |subject: &Subject| {
        let workspace = subject.create_ready().await;
        let agent = agent_id(&workspace);
        let items = subject.client.agent_metadata(agent).await.unwrap();
        let expected: Vec<Value> = items.iter().map(|item| json!(item.description.key)).collect();
        let path = format!("/api/v2/workspaceagents/{agent}/watch-metadata-ws");
        let frame = json_frame(&mut subject.socket(&path).await).await;
        let rows = frame["data"].as_array().unwrap();
        let keys: Vec<Value> = rows.iter().map(|row| row["description"]["key"].clone()).collect();
        assert_eq!((&frame["type"], keys), (&json!("data"), expected));
    })
    .await;
}

#[tokio::test]
async fn a_builds_log_is_followed_line_by_line_to_its_end() {
    on_every_coder(async |subject: &Subject| {
        let build = subject.create().await.latest_build.id;
        let mut socket = subject.socket(&format!("/api/v2/workspacebuilds/{build}/logs?follow=true")).await;
        let mut lines = Vec::new();
        let end = loop {
            match next(&mut socket).await {
                Frame::Json(line) => lines.push(line),
                closed @ Frame::Closed(..) => break closed,
            }
        };
        assert_eq!(end, Frame::Closed(1000, "done".to_owned()));
        let kept = subject.api.get(&format!("/api/v2/workspacebuilds/{build}/logs")).await.body;
        assert_eq!(json!(lines), kept);
    })
    .await;
}

#[tokio::test]
async fn an_agents_log_is_followed_in_arrays_of_lines() {
    on_every_coder(async |subject: &Subject| {
        let path = format!("/api/v2/workspaceagents/{}/logs", agent_id(&subject.create_ready().await));
        let kept = subject.api.get(&path).await.body;
        let kept = kept.as_array().unwrap();
        let mut socket = subject.socket(&format!("{path}?follow=true")).await;
        let mut followed = Vec::new();
        // One that has said nothing yet has nothing to be followed.
        while followed.len() < kept.len() {
            followed.extend(json_frame(&mut socket).await.as_array().unwrap().clone());
        }
        assert_eq!(followed.get(..kept.len()), Some(kept.as_slice()));
    })
    .await;
}
