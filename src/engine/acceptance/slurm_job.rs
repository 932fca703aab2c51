//! The job of Slurm that runs a collective: its nodes, and the program that submits it.

use super::measure::{MeasureContext, describe_loss, fill_words};
use super::test_host::TestHost;
use crate::acceptance::{SlurmJob, SlurmLaunch};
use crate::engine::window::{SLURM_NODE_QUERY, SlurmNode, parse_node};
use crate::probe::ProbeOutput;
use crate::script::ShellFragment;
use futures_util::future::join_all;
use std::collections::BTreeMap;

impl MeasureContext<'_> {
    /// Returns the program that runs the test as a job on the nodes of a group. `unit` is also the name of the job.
    ///
    /// # Errors
    /// A host is not a node, or its node takes no jobs: a lowercase fragment.
    pub async fn build_slurm_words(
        &self,
        launch: &SlurmLaunch,
        group: &[&TestHost<'_>],
        (unit, slots): (&str, u64),
        parameters: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, String> {
        let found = join_all(group.iter().map(|host| self.find_slurm_node(host))).await;
        let nodes = found.into_iter().collect::<Result<Vec<String>, String>>()?;
        let command = fill_words(&self.test.definition.rank_command, parameters)?;
        let limit_s = self.test.definition.limit_s;
        Ok(launch.build_words(&SlurmJob { name: unit, nodes: &nodes, slots, limit_s, command: &command }))
    }

    async fn find_slurm_node(&self, host: &TestHost<'_>) -> Result<String, String> {
        let query = ShellFragment::new().code(SLURM_NODE_QUERY);
        let done = self.run_script(host, query).await.map_err(|error| describe_loss(host, &error))?.finished;
        let output = ProbeOutput {
            status: done.status,
            stdout: String::from_utf8_lossy(&done.stdout).into_owned().into(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned().into(),
            truncated: false,
        };
        let node = parse_node(&output).map_err(|why| format!("`{}`: {why}", host.name))?;
        refuse_closed_node(&node)?;
        Ok(node.name)
    }
}

/// Checks that a node takes jobs: `srun` only says that some node of a job does not.
fn refuse_closed_node(node: &SlurmNode) -> Result<(), String> {
    if !node.is_drained() && !node.is_down() {
        return Ok(());
    }
    match node.reason.as_str() {
        "" => Err(format!("node `{}` takes no jobs of Slurm: {}", node.name, node.state)),
        reason => Err(format!("node `{}` takes no jobs of Slurm: {}, {reason}", node.name, node.state)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_node_is_named_with_its_reason() {
        let refuse = |state: &str, reason: &str| {
            let node = SlurmNode { name: "n1".to_owned(), state: state.to_owned(), reason: reason.to_owned() };
            refuse_closed_node(&node).err()
        };
        assert_eq!((refuse("IDLE", ""), refuse("MIXED", "")), (None, None), "srun waits for the jobs of others");
        let drained = "node `n1` takes no jobs of Slurm: IDLE+DRAIN, bad DIMM [root@2026-11-22T15:48:20]";
        assert_eq!(refuse("IDLE+DRAIN", "bad DIMM [root@2026-11-22T15:48:20]").as_deref(), Some(drained));
        assert_eq!(refuse("DOWN*", "").as_deref(), Some("node `n1` takes no jobs of Slurm: DOWN*"));
    }
}
