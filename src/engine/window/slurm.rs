//! Slurm nodes: drained before a window opens, resumed after it closes, and only if forge drained them.

use crate::model::UntrustedText;
use crate::probe::{CheckProbe, Probe, ProbeOutput};
use crate::script::ShellFragment;

/// Prefix of forge's drain reasons: a node with another reason was drained by another user.
const FORGE_REASON_PREFIX: &str = "forge ";
/// Marks the drain reason of a node that was down before it was drained: it is not brought up.
const WAS_DOWN_SUFFIX: &str = " (was down)";

/// Prints the node of the host that runs it.
pub const SLURM_NODE_QUERY: &str = "scontrol show node \"$(hostname -s)\"";

/// A node as reported by `scontrol show node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmNode {
    pub name: String,
    /// `IDLE`, or `MIXED+DRAIN`.
    pub state: String,
    pub reason: String,
}

impl SlurmNode {
    fn has_state(&self, word: &str) -> bool {
        self.state.split('+').any(|part| part.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-']) == word)
    }

    /// Reports whether the node accepts no new jobs.
    pub fn is_drained(&self) -> bool {
        self.has_state("DRAIN") || self.has_state("DRAINED") || self.has_state("DRAINING")
    }

    /// Reports whether jobs run on the node.
    pub fn is_working(&self) -> bool {
        ["ALLOCATED", "MIXED", "COMPLETING", "DRAINING"].iter().any(|word| self.has_state(word))
    }

    /// Reports whether Slurm considers the node down, drained or not.
    pub fn is_down(&self) -> bool {
        self.has_state("DOWN") || self.has_state("FAIL")
    }

    /// Reports whether forge drained the node, in this run or an earlier one.
    pub fn is_drained_by_forge(&self) -> bool {
        self.is_drained() && self.reason.starts_with(FORGE_REASON_PREFIX)
    }
}

/// Returns the probe for a host's own node.
pub fn build_node_probe() -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: "the node in Slurm".to_owned(),
        script: SLURM_NODE_QUERY.to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(30),
    }))
}

/// Parses the output of `scontrol show node`.
///
/// # Errors
/// Slurm does not know the node or did not answer: the reason, as a lowercase fragment.
pub fn parse_node(output: &ProbeOutput) -> Result<SlurmNode, String> {
    if output.status != 0 {
        let said = output.stderr.raw().lines().chain(output.stdout.raw().lines()).find(|line| !line.trim().is_empty());
        return Err(format!("`scontrol` exited with {}: {}", output.status, said.unwrap_or("no message").trim()));
    }
    let text = output.stdout.raw();
    let field = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let reason = text.lines().find_map(|line| line.trim_start().strip_prefix("Reason="));
    match (field("NodeName"), field("State")) {
        (Some(name), Some(state)) => Ok(SlurmNode {
            name: name.to_owned(),
            state: state.to_owned(),
            reason: reason.unwrap_or_default().trim().to_owned(),
        }),
        _ => Err("`scontrol` printed no node".to_owned()),
    }
}

/// Returns the script that drains a node.
pub fn build_drain_script(node: &SlurmNode, run: &str) -> ShellFragment {
    let was = if node.is_down() { WAS_DOWN_SUFFIX } else { "" };
    build_update_command(node).code(" State=DRAIN").word(format!("Reason={FORGE_REASON_PREFIX}{run}{was}"))
}

/// Returns the script that resumes a node. A node that was down is only undrained: `RESUME` would bring it up.
pub fn build_resume_script(node: &SlurmNode) -> ShellFragment {
    build_update_command(node).code(if node.reason.contains(WAS_DOWN_SUFFIX) {
        " State=UNDRAIN"
    } else {
        " State=RESUME"
    })
}

fn build_update_command(node: &SlurmNode) -> ShellFragment {
    ShellFragment::new().code("scontrol update").word(format!("NodeName={}", node.name))
}

/// Returns the author of a drain that forge did not make.
pub fn describe_other_drainer(node: &SlurmNode) -> UntrustedText {
    match node.reason.as_str() {
        "" => "another user, no reason given".into(),
        reason => format!("another user: {reason}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // origin: field, Slurm 22.05 of Debian 12, shortened
    const SHOWN: &str = "NodeName=s-01 Arch=x86_64 CoresPerSocket=1 \n   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=3.32\n   \
        NodeAddr=s-01 NodeHostName=s-01 Version=22.05.8\n   RealMemory=1 AllocMem=0 FreeMem=9180 Sockets=2 Boards=1\n   \
        State=STATE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n   Partitions=gpu \n   \
        ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n   Reason=REASON [root@2026-11-22T15:48:20]\n\n";

    fn parse_sample_node(state: &str, reason: &str) -> SlurmNode {
        let stdout = SHOWN.replace("STATE", state).replace("REASON", reason);
        let output = ProbeOutput { status: 0, stdout: stdout.as_str().into(), stderr: "".into(), truncated: false };
        parse_node(&output).unwrap()
    }

    #[test]
    fn compound_slurm_states_are_parsed() {
        let of = |state: &str| {
            let node = parse_sample_node(state, "forge r1");
            (node.is_drained(), node.is_working())
        };
        assert_eq!((of("IDLE"), of("MIXED"), of("ALLOCATED")), ((false, false), (false, true), (false, true)));
        assert_eq!(
            (of("IDLE+DRAIN"), of("MIXED+DRAIN"), of("IDLE*+DRAIN")),
            ((true, false), (true, true), (true, false))
        );
        assert_eq!(of("DOWN*+DRAIN"), (true, false));
        assert_eq!(of("DOWN+DRAIN+NOT_RESPONDING"), (true, false));
    }

    #[test]
    fn only_nodes_drained_by_forge_are_owned() {
        assert!(parse_sample_node("IDLE+DRAIN", "forge 20261121T093015-4f2a").is_drained_by_forge());
        assert!(!parse_sample_node("IDLE+DRAIN", "bad DIMM").is_drained_by_forge());
        assert!(!parse_sample_node("IDLE", "forge 20261121T093015-4f2a").is_drained_by_forge());
        assert_eq!(
            describe_other_drainer(&parse_sample_node("IDLE+DRAIN", "bad DIMM")).raw(),
            "another user: bad DIMM [root@2026-11-22T15:48:20]"
        );
    }

    #[test]
    fn node_that_was_down_is_undrained_but_not_resumed() {
        let text = |script: ShellFragment| {
            use secrecy::ExposeSecret as _;
            script.render(&Default::default()).unwrap().expose_secret().to_owned()
        };
        let down = "scontrol update 'NodeName=s-01' State=DRAIN 'Reason=forge r1 (was down)'";
        assert_eq!(text(build_drain_script(&parse_sample_node("DOWN*", ""), "r1")), down);
        assert_eq!(
            text(build_drain_script(&parse_sample_node("IDLE", ""), "r1")),
            "scontrol update 'NodeName=s-01' State=DRAIN 'Reason=forge r1'"
        );
        assert!(
            text(build_resume_script(&parse_sample_node("DOWN+DRAIN", "forge r1 (was down)")))
                .ends_with(" State=UNDRAIN")
        );
        assert!(text(build_resume_script(&parse_sample_node("IDLE+DRAIN", "forge r1"))).ends_with(" State=RESUME"));
    }

    #[test]
    fn node_unknown_to_slurm_is_an_error() {
        let output =
            |status, stdout: &str| ProbeOutput { status, stdout: stdout.into(), stderr: "".into(), truncated: false };
        assert_eq!(
            parse_node(&output(1, "Node x not found\n")),
            Err("`scontrol` exited with 1: Node x not found".to_owned())
        );
        assert_eq!(parse_node(&output(0, "")), Err("`scontrol` printed no node".to_owned()));
    }
}
