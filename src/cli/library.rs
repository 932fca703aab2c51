//! The real library behind the verbs.

use super::backend::{Ask, Backend, Events};
use super::settings::Settings;
use crate::config::Project;
use crate::diag::{Code, Diag, Diags, Sources};
use crate::engine::Report;
use crate::model::HostName;
use crate::plan::{HostSeen, Plan};
use camino::Utf8Path;

/// Calls the rooms below.
pub struct Library;

// To be joined when `config::load`, `engine::observe`, `plan::plan` and `engine::apply` are merged: until
// then loading says that it cannot, and nothing after it is reached.
impl Backend for Library {
    type Seen = Vec<HostSeen>;
    type Cancel = ();

    fn load(&self, path: &Utf8Path, _: &Settings) -> (Option<Project>, Diags, Sources) {
        let diag = Diag::error(Code::Unreadable, format!("`{path}` cannot be read: loading is not joined yet"));
        (None, Diags(vec![diag]), Sources::default())
    }

    fn select(&self, project: &Project, _: Option<&str>) -> Result<Vec<HostName>, Box<Diag>> {
        Ok(project.hosts.keys().cloned().collect())
    }

    async fn observe(&self, _: &Project, _: &[HostName], _: Ask, _: &Settings, _: Events) -> Vec<HostSeen> {
        unimplemented!("not joined yet")
    }

    fn plan(&self, _: &Project, _: &[HostSeen], _: &Settings) -> Plan {
        unimplemented!("not joined yet")
    }

    async fn apply(&self, _: &Project, _: &Plan, _: Vec<HostSeen>, _: &Settings, _: Events, (): ()) -> Report {
        unimplemented!("not joined yet")
    }

    async fn verify(&self, _: &Project, _: Vec<HostSeen>, _: &Settings, _: Events, (): ()) -> Report {
        unimplemented!("not joined yet")
    }

    fn stop(&self, (): &()) {}
}
