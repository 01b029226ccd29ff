//! The doctor's findings as operators see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::doctor::Check;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct DoctorReport {
    pub ok: bool,
    pub checks: Vec<CheckRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct CheckRow {
    pub name: String,
    pub ok: bool,
    pub finding: String,
    /// The remedy if the check failed.
    pub remedy: Option<String>,
}

impl From<&Vec<Check>> for DoctorReport {
    fn from(checks: &Vec<Check>) -> Self {
        let rows: Vec<CheckRow> = checks.iter().map(CheckRow::from).collect();
        Self { ok: rows.iter().all(|row| row.ok), checks: rows }
    }
}

impl From<&Check> for CheckRow {
    fn from(check: &Check) -> Self {
        Self {
            name: check.name.to_owned(),
            ok: check.remedy.is_none(),
            finding: check.finding.clone(),
            remedy: check.remedy.clone(),
        }
    }
}
