//! What was typed, as what it means.

use super::args::{Color, Format, Global};
use super::env::Environment;
use crate::config::StepFilter;
use crate::engine::Replay;
use crate::plan::Policy;
use crate::view::progress::Detail;
use camino::{Utf8Path, Utf8PathBuf};
use std::time::Duration;

/// What holds for the whole run of a verb.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A selector as typed; `None` for all hosts.
    pub on: Option<String>,
    pub filter: StepFilter,
    pub policy: Policy,
    /// Why those who hold devices are to be ended.
    pub evict_busy: Option<String>,
    pub format: Format,
    pub json_into: Option<Utf8PathBuf>,
    /// Hosts worked on at once, from 1.
    pub parallel: usize,
    /// For checks and steps that name none.
    pub timeout: Option<Duration>,
    state: Option<Utf8PathBuf>,
    /// The user's runtime folder, for control sockets.
    pub runtime: Option<Utf8PathBuf>,
    /// Environment variables that ssh is given beside those it always is.
    pub ssh_variables: std::sync::Arc<[String]>,
    /// Who runs forge.
    pub user: Option<String>,
    /// Whether hosts are asked, and whether their raw answers are kept.
    pub replay: Replay,
    pub trust: bool,
    /// Whether artifacts come from the cache only.
    pub offline: bool,
    pub color: Color,
    pub detail: Detail,
    /// How often `-v` was given.
    pub verbose: u8,
}

impl Settings {
    /// Builds from flags and environment; a flag wins.
    pub fn new(typed: &Global, environment: &Environment) -> Self {
        Self {
            on: typed.on.clone(),
            filter: StepFilter::new(&typed.step, &typed.skip),
            policy: Policy::default(),
            evict_busy: None,
            format: typed.format,
            json_into: typed.json_into.clone(),
            parallel: typed.parallel.into(),
            timeout: typed.timeout,
            state: typed.state.clone().or_else(|| environment.state.clone()),
            runtime: environment.runtime.clone(),
            ssh_variables: environment.ssh_variables.clone().into(),
            user: environment.user.clone(),
            replay: Replay::default(),
            trust: typed.trust,
            offline: false,
            color: typed.color,
            detail: Detail::of(typed.quiet, typed.verbose),
            verbose: typed.verbose,
        }
    }

    /// Returns the same with another selection.
    pub fn narrowed(&self, on: &str) -> Self {
        Self { on: Some(on.to_owned()), ..self.clone() }
    }

    /// Returns the same with what a verb allows.
    pub fn allowing(&self, policy: Policy, evict_busy: Option<String>) -> Self {
        Self { policy, evict_busy, ..self.clone() }
    }

    /// Returns the same, with artifacts from the cache only where `offline` says so.
    pub fn offline(&self, offline: bool) -> Self {
        Self { offline, ..self.clone() }
    }

    /// Returns the folder for runs and history of an inventory.
    pub fn state(&self, inventory: &Utf8Path) -> Utf8PathBuf {
        let beside = || inventory.parent().unwrap_or(Utf8Path::new("")).join(".forge");
        self.state.clone().unwrap_or_else(beside)
    }
}
