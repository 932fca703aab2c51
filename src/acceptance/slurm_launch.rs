//! How a collective test starts as a job of Slurm: the settings of `launch: { slurm: … }`, and the arguments of `srun`.

use crate::model::Value;
use serde_json::json;
use std::collections::BTreeMap;

/// The settings of a job of Slurm that measures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlurmLaunch {
    /// The partition of the nodes; `None` for Slurm's default.
    pub partition: Option<String>,
    /// The account that the job is charged to.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// The reservation in which the job runs.
    pub reservation: Option<String>,
    /// How MPI starts (`--mpi`), such as `pmix`; `None` for Slurm's default.
    pub mpi: Option<String>,
    /// Generic resources per node, such as `gpu:8`.
    pub gres: Option<String>,
    /// Other options of `srun`, each one word: `--container-image=…`.
    pub options: Vec<String>,
    /// Environment of the processes.
    pub env: BTreeMap<String, String>,
    /// Seconds that the job may wait for its nodes.
    pub start_within_s: u64,
}

/// One job of Slurm: a program on all hosts of a group.
#[derive(Clone, Debug)]
pub struct SlurmJob<'j> {
    /// The name of the job.
    pub name: &'j str,
    /// The nodes, by their names in Slurm.
    pub nodes: &'j [String],
    /// Processes per node.
    pub slots: u64,
    /// Seconds that the program may run.
    pub limit_s: u64,
    /// The program of each process, with its arguments.
    pub command: &'j [String],
}

impl SlurmLaunch {
    /// Returns the program that submits a job and waits until it ended. The job has its nodes for itself; it is rejected if
    /// Slurm does not start it in time, and Slurm ends it after its limit, which Slurm counts in minutes.
    pub fn build_words(&self, job: &SlurmJob<'_>) -> Vec<String> {
        let mut words = vec!["env".to_owned()];
        words.extend(self.list_variables().iter().map(|(name, value)| format!("{name}={value}")));
        words.push("srun".to_owned());
        let count = job.nodes.len() as u64;
        // A process may use every processor and all memory of its share; a site's option overrides that.
        words.extend(["--cpu-bind=none".to_owned(), "--mem=0".to_owned()]);
        words.extend(self.list_site_options());
        words.extend([
            format!("--job-name={}", job.name),
            format!("--nodelist={}", job.nodes.join(",")),
            format!("--nodes={count}"),
            format!("--ntasks={}", count * job.slots),
            format!("--ntasks-per-node={}", job.slots),
            "--exclusive".to_owned(),
            format!("--immediate={}", self.start_within_s),
            format!("--time={}", job.limit_s.div_ceil(60)),
            // The others would wait for a process that failed.
            "--kill-on-bad-exit=1".to_owned(),
            "--export=ALL".to_owned(),
            // The directory of the account on the submitting host may be missing on a node.
            "--chdir=/tmp".to_owned(),
        ]);
        words.extend(job.command.iter().cloned());
        words
    }

    /// Returns the options of `srun` that the inventory declares.
    pub fn list_site_options(&self) -> Vec<String> {
        let keys = [
            ("partition", &self.partition),
            ("account", &self.account),
            ("qos", &self.qos),
            ("reservation", &self.reservation),
            ("mpi", &self.mpi),
            ("gres", &self.gres),
        ];
        let declared = keys.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
        declared.chain(self.options.iter().cloned()).collect()
    }

    /// Returns the environment of the processes. NCCL's log says which network it used.
    fn list_variables(&self) -> BTreeMap<String, String> {
        let mut all = self.env.clone();
        all.insert("NCCL_DEBUG".to_owned(), "INFO".to_owned());
        all
    }

    /// Returns what decides about a result.
    pub fn to_declaration(&self) -> Value {
        json!({ "mpi": self.mpi, "gres": self.gres, "options": self.options, "env": self.list_variables() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn job_has_its_nodes_for_itself_and_two_limits() {
        let launch = SlurmLaunch {
            partition: Some("gpu".to_owned()),
            mpi: Some("pmix".to_owned()),
            gres: Some("gpu:8".to_owned()),
            options: own(&["--container-image=registry.example#nccl-tests:2.27"]),
            env: BTreeMap::from([("NCCL_IB_TC".to_owned(), "96".to_owned())]),
            start_within_s: 300,
            ..SlurmLaunch::default()
        };
        let (nodes, command) = (own(&["gpu-01", "gpu-02"]), own(&["all_reduce_perf", "-b", "16G"]));
        let job = SlurmJob { name: "forge-test-r1-1", nodes: &nodes, slots: 8, limit_s: 601, command: &command };
        let expected = "env NCCL_DEBUG=INFO NCCL_IB_TC=96 srun --cpu-bind=none --mem=0 --partition=gpu --mpi=pmix \
                        --gres=gpu:8 --container-image=registry.example#nccl-tests:2.27 --job-name=forge-test-r1-1 \
                        --nodelist=gpu-01,gpu-02 --nodes=2 --ntasks=16 --ntasks-per-node=8 --exclusive \
                        --immediate=300 --time=11 --kill-on-bad-exit=1 --export=ALL --chdir=/tmp all_reduce_perf -b 16G";
        assert_eq!(launch.build_words(&job).join(" "), expected);
    }
}
