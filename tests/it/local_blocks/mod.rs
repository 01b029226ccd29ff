//! What embedded workspaces are made of: processes, terminals and the way to their apps.

mod app_proxy;
mod ending;
mod processes;
mod terminal_sockets;
mod terminals;
mod workspace;
