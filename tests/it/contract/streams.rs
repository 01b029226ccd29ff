//! Metadata, logs and lists of what runs.

use fleet_mcp::coder::{CoderError, WorkspaceQuery};

use super::{Subject, agent_id, on_every_coder};

#[tokio::test]
async fn metadata_is_told_by_the_agents_stream_and_inside_lists_where_those_can() {
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
        let page = match subject.client.workspaces(&query).await {
            Ok(page) => page,
            // Coder 2.36.0 does not know this search yet, and says so in words that our client can tell.
            Err(CoderError::Answered(answer)) if answer.status == 400 => {
                let fields: Vec<&str> = answer.validations.iter().map(|row| row.field.as_str()).collect();
                return assert_eq!(fields, ["include_agent_metadata"]);
            }
            Err(error) => panic!("{error}"),
        };
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
