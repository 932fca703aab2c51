//! Parses `launch.slurm` of an entry of `tests:`: how a collective starts as a job of Slurm.

use super::test_definition::read_texts;
use super::worker_pods::read_filled_text;
use crate::acceptance::SlurmLaunch;
use crate::config::YamlNode;
use crate::config::load_context::LoadContext;
use crate::config::scalar;
use crate::config::yaml_table::YamlTable;
use crate::diag::{Diag, DiagCode};

/// Keys of `launch.slurm`.
pub(in crate::config) const SLURM_KEYS: [&str; 9] =
    ["partition", "account", "qos", "reservation", "mpi", "gres", "options", "env", "start_within"];
const DEFAULT_START_S: u64 = 300;
/// Options of `srun` that forge sets itself.
const OWN_OPTIONS: [&str; 11] = [
    "job-name",
    "nodelist",
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "exclusive",
    "immediate",
    "time",
    "kill-on-bad-exit",
    "export",
    "chdir",
];
/// Keys that are options of `srun`.
const KEY_OPTIONS: [&str; 6] = ["partition", "account", "qos", "reservation", "mpi", "gres"];

pub(super) fn read_slurm_launch(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<SlurmLaunch> {
    let table = YamlTable::open(node, "`launch.slurm`", &SLURM_KEYS, &mut cx.diags)?;
    let mut read = |key: &'static str| table.get(key).and_then(|node| read_filled_text(node, key, cx));
    let [partition, account, qos, reservation, mpi, gres] = KEY_OPTIONS.map(&mut read);
    let options = table.get_items("options", &mut cx.diags);
    let options = options.into_iter().filter_map(|node| read_option(node, cx)).collect();
    let env = read_texts(&table, "env", cx);
    if let (Some(node), true) = (table.get("env"), env.contains_key("NCCL_DEBUG")) {
        let message = "`env` cannot set `NCCL_DEBUG`: forge reads the network from NCCL's log, and sets `INFO`";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    }
    let start_within_s = table.get_limit("start_within", &mut cx.diags).unwrap_or(DEFAULT_START_S);
    Some(SlurmLaunch { partition, account, qos, reservation, mpi, gres, options, env, start_within_s })
}

/// Reads a further option of `srun`. A word without `--` would be the program, and a value needs `=`.
fn read_option(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let text = read_filled_text(node, "options", cx)?;
    let name = text.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or_default());
    let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace)) else {
        let message = format!("an option of `srun` is one word with `--`, found `{}`", scalar::shorten_text(&text));
        let diag = Diag::error(DiagCode::BadValue, message).with_span(node.span);
        cx.push_diag(diag.hint("write its value after `=`: `--container-image=registry.example#nccl-tests:2.27`"));
        return None;
    };
    if OWN_OPTIONS.contains(&name) {
        let message = format!("forge sets the option `--{name}` itself");
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        return None;
    }
    if KEY_OPTIONS.contains(&name) {
        let message = format!("`--{name}` is the key `{name}` of `launch.slurm`");
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
        return None;
    }
    Some(text)
}
