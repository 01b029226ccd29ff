//! `roles` and `projects`: the roles of agents, and the projects they work in.

use clap::Args;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::Screen;
use super::table::{Column, Table, column, column_from, text};
use crate::view::catalog::{AgentProjects, AgentRoles};
use crate::view::request::{NoInput, RolesInput};

const ROLES: &[Column] = &[column("ROLE"), column("KIND"), column_from(50, "DEFAULT"), column("DESCRIPTION")];
const PROJECTS: &[Column] =
    &[column("PROJECT"), column_from(80, "TEMPLATE"), column_from(60, "DEFAULT ROLE"), column("DESCRIPTION")];

#[derive(Debug, Args)]
pub struct RolesArgs {
    /// Include the roles of this project's template, and mark the default
    #[arg(long, value_name = "P")]
    project: Option<String>,
}

pub(super) async fn roles(globals: &Globals, args: RolesArgs, screen: &Screen) -> Result<Exit, CliError> {
    let body = Client::connect(globals)?.get(&["roles"], &RolesInput { project: args.project }).await?;
    screen.answer(&body, |found: &AgentRoles| {
        let mut table = Table::new(ROLES);
        for role in &found.roles {
            let default = if role.default { "yes" } else { "" };
            table.row([text(&role.name), text(&role.kind), text(default), text(&role.description)]);
        }
        screen.table(&table)?;
        screen
            .hint("fleet-mcp agents create --project P --role ROLE --spec TEXT creates an agent with a role");
        Ok(())
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn projects(globals: &Globals, screen: &Screen) -> Result<Exit, CliError> {
    let body = Client::connect(globals)?.get(&["projects"], &NoInput {}).await?;
    screen.answer(&body, |found: &AgentProjects| {
        let mut table = Table::new(PROJECTS);
        for project in &found.projects {
            table.row([
                text(&project.name),
                text(&project.template_name),
                text(&project.default_role),
                text(&project.description),
            ]);
        }
        screen.table(&table)?;
        for problem in &found.problems {
            screen.hint(&format!("ignored: {problem}"));
        }
        screen.hint("fleet-mcp agents create --project PROJECT --spec TEXT creates an agent in one");
        Ok(())
    })?;
    Ok(Exit::Ok)
}
