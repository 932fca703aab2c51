//! How hosts are divided among workers.

/// The program that works on the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// Worker processes on this machine, each with a part of the hosts
    Local,
    /// Worker pods: `worker_pods` of the inventory says where
    Kubernetes,
}

/// The values of `--engine`, `--workers` and `--shard-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// What runs the workers.
    pub kind: EngineKind,
    /// How many workers run at once, at least 1.
    pub workers: usize,
    /// How many hosts one worker gets at most, at least 1.
    pub shard_size: usize,
}
