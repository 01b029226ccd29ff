//! Metadata, logs and lists of what runs.

use fleet_mcp::coder::WorkspaceQuery;

use super::{Subject, agent_id, on_every_coder};

#[tokio::test]
async fn metadata_is_told_by_the_agents_stream_and_inside_lists() {
    on_every_coder(async |subject: &Subject| {
        let workspace = subject.create_ready().await;
        let items = subject.client.agent_metadata(agent_id(&workspace)).await.unwrap();
        let keys: Vec<String> = items.iter().map(|item| item.description.key.clone()).collect();
        let query = WorkspaceQuery {
            q: format!("id:{}", workspace.id),
            limit: 0,
            offset: 0,
            metadata_keys: keys.clone(),
        };
        let page = subject.client.workspaces(&query).await.unwrap();
        let agent = &page.workspaces[0].latest_build.resources[0].agents[0];
        let listed: Vec<String> = agent.metadata.iter().map(|item| item.description.key.clone()).collect();
        assert_eq!(listed, keys);
    })
    .await;
}

#[tokio::test]
async fn a_builds_log_can_be_read_from_any_line_on() {
    on_every_coder(async |subject: &Subject| {
        let workspace = subject.create_ready().await;
        let build = workspace.latest_build.id;
        let all = subject.client.build_logs(build, None).await.unwrap();
        assert_eq!((all[0].stage.as_str(), all[0].log_source.as_str()), ("Setting up", "provisioner_daemon"));
        let rest = subject.client.build_logs(build, Some(all[0].id)).await.unwrap();
        assert_eq!(rest, all[1..]);
    })
    .await;
}
