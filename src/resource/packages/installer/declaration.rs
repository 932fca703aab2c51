//! The declaration of an installer.

use crate::model::{Sha256Digest, Value};
use crate::probe::{CheckProbe, Probe};
use crate::resource::DeclaredResource;
use regex::Regex;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct InstallerResource {
    pub(super) program: InstallerProgram,
    pub(super) version: String,
    pub(super) probe: String,
    pub(super) pattern: Option<Regex>,
    pub(super) not_installed: Vec<i64>,
    pub(super) sha256: Option<Sha256Digest>,
    pub(super) exit_codes: BTreeMap<i32, String>,
    pub(super) also_ok: Vec<i64>,
    pub(super) log: String,
    pub(super) cwd: String,
    pub(super) env: Vec<(String, String)>,
    /// The declared fields, for an undo.
    pub(super) declared: Value,
    pub(super) absent: bool,
}

#[derive(Debug)]
pub(super) struct InstallerProgram {
    pub(super) path: String,
    pub(super) args: Vec<String>,
}

impl InstallerResource {
    /// Returns the probe of the installed version.
    pub(super) fn version_probe(&self) -> Probe {
        Probe::Check(Box::new(CheckProbe {
            id: format!("version for `{}`", self.title()),
            script: self.probe.clone(),
            user: None,
            cwd: None,
            env: Vec::new(),
            timeout_s: None,
        }))
    }
}
