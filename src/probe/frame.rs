//! Frames: how sections of a script's output are told apart, and lost links noticed.

use super::{FactSnippet, Observation, Probe, Section};
use crate::script::{Script, Token};
use std::collections::BTreeSet;

/// A script made of probes, and what its output answers.
pub struct Compiled {
    /// The script of the quick probes.
    pub script: Script,
    /// The script of the probes that touch devices or network mounts, for a second channel.
    pub device: Option<Script>,
    #[allow(dead_code)]
    pub(crate) sections: Vec<Section>,
    #[allow(dead_code)]
    pub(crate) device_sections: Vec<Section>,
}

/// Why an output cannot be read at all.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    #[error("the end of the answer is missing: the link was lost or the script was stopped")]
    Cut,
    #[error("the answer does not have the form forge wrote it in: {0}")]
    Malformed(String),
}

/// Merges `probes` into a script.
pub fn compile(_probes: &BTreeSet<Probe>, _facts: &[FactSnippet], _token: Token) -> Compiled {
    unimplemented!("written next")
}

/// Reads the output of a compiled script into answers.
///
/// # Errors
/// The output was cut or is not in frames.
pub fn parse(_compiled: &Compiled, _stdout: &[u8], _device: Option<&[u8]>) -> Result<Observation, FrameError> {
    unimplemented!("written next")
}
