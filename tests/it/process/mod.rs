//! The program as its users run it: started, stopped, killed, and found by its clients.

mod both_kills;
mod kill_points;
mod serving;
mod stdio;
mod task_kills;
