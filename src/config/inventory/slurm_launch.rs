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
/// Options that would use the nodes of other jobs, or keep the job from starting as declared.
const REFUSED_OPTIONS: [&str; 11] = [
    "begin",
    "exclude",
    "het-group",
    "hold",
    "jobid",
    "no-allocate",
    "nodefile",
    "overcommit",
    "overlap",
    "oversubscribe",
    "uid",
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
    if let (Some(node), Some(name)) = (table.get("env"), env.keys().find(|name| !is_variable_name(name))) {
        let message = format!("`{}` is not the name of an environment variable", scalar::shorten_text(name));
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    }
    let start_within_s = table.get_limit("start_within", &mut cx.diags).unwrap_or(DEFAULT_START_S);
    Some(SlurmLaunch { partition, account, qos, reservation, mpi, gres, options, env, start_within_s })
}

fn is_variable_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
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
    // `srun` also accepts the beginning of a name.
    let find = |options: &[&'static str]| options.iter().find(|option| option.starts_with(name)).copied();
    let message = match (find(&OWN_OPTIONS), find(&KEY_OPTIONS), find(&REFUSED_OPTIONS)) {
        (Some(option), ..) => format!("forge sets the option `--{option}` itself"),
        (None, Some(option), _) => format!("`--{option}` is the key `{option}` of `launch.slurm`"),
        (None, None, Some(option)) => {
            format!("`--{option}` is not permitted: the job of a test has its nodes for itself, and starts at once")
        }
        (None, None, None) => return Some(text),
    };
    cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span));
    None
}
