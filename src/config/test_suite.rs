//! The `tests:` section: sets of acceptance tests, and the tests themselves.

use crate::acceptance::{BasisSource, DeclaredBasis, RequiredTransport, SlurmLaunch};
use crate::diag::Span;
use crate::model::HostName;
use crate::object::TestJobLaunch;
use indexmap::IndexMap;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// `tests:`, with the built-in sets that the inventory does not replace.
#[derive(Clone, Debug, Default)]
pub struct TestSuite {
    /// The entries of each set, by its name.
    pub sets: IndexMap<String, Vec<DeclaredTest>>,
}

/// An entry of a set.
#[derive(Clone, Debug)]
pub struct DeclaredTest {
    /// The test.
    pub definition: Arc<TestDefinition>,
    /// The hosts that it runs on, in inventory order.
    pub hosts: Vec<HostName>,
    /// Parameters, with defaults.
    pub parameters: BTreeMap<String, String>,
    /// Adapters that are tested one after the other; empty for those that the hosts have.
    pub rails: Vec<String>,
    /// Which results are good.
    pub expected: DeclaredLimit,
    /// How far a value may be below that of the earlier run, as a share of it.
    pub baseline_drop: f64,
    /// Which pairs of hosts are tested.
    pub pairs: PairSelection,
    /// How many pairs or groups run at a time; 0 for no limit.
    pub at_once: usize,
    /// How many hosts run the program of a group together; 0 for all.
    pub group_size: usize,
    /// What the program of a group must use between hosts.
    pub required: RequiredTransport,
    /// What starts the processes of a group.
    pub launch: TestLaunch,
    /// Whether a host that has not passed it counts as drift.
    pub proof_required: bool,
    /// The place of the entry.
    pub span: Span,
}

/// What starts the processes of a group.
#[derive(Clone, Debug, Default)]
pub enum TestLaunch {
    /// The test's own command, on one of the hosts.
    #[default]
    Command,
    /// A job of the Kubernetes cluster.
    Kubernetes(Box<TestJobLaunch>),
    /// A job of Slurm, which one of the hosts submits.
    Slurm(SlurmLaunch),
}

impl TestLaunch {
    /// Returns how the test starts as a job of the Kubernetes cluster, if it does.
    pub fn as_kubernetes(&self) -> Option<&TestJobLaunch> {
        match self {
            Self::Kubernetes(launch) => Some(launch),
            Self::Command | Self::Slurm(_) => None,
        }
    }

    /// Returns how the test starts as a job of Slurm, if it does.
    pub fn as_slurm(&self) -> Option<&SlurmLaunch> {
        match self {
            Self::Slurm(launch) => Some(launch),
            Self::Command | Self::Kubernetes(_) => None,
        }
    }

    /// Returns the settings that decide about a result; `None` for the test's own command.
    fn to_declaration(&self) -> Option<serde_json::Value> {
        match self {
            Self::Command => None,
            Self::Kubernetes(launch) => Some(launch.to_declaration()),
            Self::Slurm(launch) => Some(json!({ "slurm": launch.to_declaration() })),
        }
    }
}

impl TestSuite {
    /// Returns the entries of a set with the names under which hosts keep their proofs: `quick/ib-write-bw`. A test that
    /// a set has twice has a number.
    pub fn list_proof_names(&self, set: &str) -> Vec<(String, &DeclaredTest)> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let entries = self.sets.get(set).map(Vec::as_slice).unwrap_or_default();
        let name_entry = |test: &DeclaredTest| format!("{set}/{}", test.definition.name);
        entries
            .iter()
            .map(|test| {
                let count = seen.entry(&test.definition.name).or_default();
                *count += 1;
                match *count {
                    1 => (name_entry(test), test),
                    number => (format!("{}#{number}", name_entry(test)), test),
                }
            })
            .collect()
    }
}

impl DeclaredTest {
    /// Returns the parameters that its results are compared by: another way to start the processes has its own results.
    pub fn list_parameters(&self) -> BTreeMap<String, String> {
        let mut parameters = self.parameters.clone();
        let name = match &self.launch {
            TestLaunch::Command => return parameters,
            TestLaunch::Kubernetes(launch) => launch.kind.name(),
            TestLaunch::Slurm(_) => "slurm",
        };
        // They say which account starts the processes on which host, which does not change a result of a job.
        ["user", "launcher"].iter().for_each(|name| drop(parameters.remove(*name)));
        parameters.insert("launch".to_owned(), name.to_owned());
        parameters
    }

    /// Returns the digest of what decides about a result: the programs, their parameters, and which values are good.
    pub fn digest_declaration(&self) -> String {
        let definition = &self.definition;
        let kind = match &definition.programs {
            TestPrograms::Host(_) => "one host",
            TestPrograms::Loopback { .. } => "both ends on one host",
            TestPrograms::Pair { .. } => "two hosts",
            TestPrograms::Group(_) => "several hosts",
        };
        let programs = definition.programs.list_programs();
        let expected = match &self.expected {
            DeclaredLimit::Least(least) => json!({ "least": least }),
            DeclaredLimit::Most(most) => json!({ "most": most }),
            DeclaredLimit::Share { share, of } => json!({ "share": share, "of": of }),
            DeclaredLimit::Floor(floor) => json!({ "floor": [floor.least, floor.most] }),
            DeclaredLimit::Peers(share) => json!({ "peers": share }),
            DeclaredLimit::OwnVerdict => json!("own"),
        };
        let (output, required) = (definition.output.name(), (self.required.rdma, self.required.gdr));
        let mut whole =
            json!([kind, programs, output, self.parameters, self.rails, expected, required, definition.rests_on]);
        // Without it, digests stay those that hosts already keep.
        if let (Some(launch), Some(parts)) = (self.launch.to_declaration(), whole.as_array_mut()) {
            parts.push(json!([launch, definition.rank_command, definition.collective]));
        }
        let mut digest = "sha256:".to_owned();
        crate::model::push_hex(&mut digest, &Sha256::digest(whole.to_string().as_bytes()));
        digest
    }
}

/// Which results are good.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclaredLimit {
    /// At least this value.
    Least(f64),
    /// At most this value.
    Most(f64),
    /// This share of what the hardware can reach: of `of`, or of the rate of the slower port.
    Share {
        /// 0 to 1.
        share: f64,
        /// The declared ceiling; `None` for the rate of the ports.
        of: Option<f64>,
    },
    /// A published floor.
    Floor(Box<crate::acceptance::AcceptanceFloor>),
    /// Not worse than the median of all results by more than this share.
    Peers(f64),
    /// The test has no limit: every diagnostic must pass, every ping must be answered.
    OwnVerdict,
}

/// Which pairs of hosts are tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairSelection {
    /// Each host with two neighbours: two or three rounds.
    #[default]
    Ring,
    /// Each host with each other one: n − 1 rounds.
    All,
    /// Each host with two neighbours of its leaf.
    Leaf,
    /// Each host with one of every other leaf.
    Across,
}

impl PairSelection {
    /// Every selection.
    pub const ALL: [Self; 4] = [Self::Ring, Self::All, Self::Leaf, Self::Across];

    /// Returns the value of `schedule`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::All => "all",
            Self::Leaf => "leaf",
            Self::Across => "across",
        }
    }

    /// Returns whether it needs to know the leaf of each host.
    pub fn needs_fabric(self) -> bool {
        matches!(self, Self::Leaf | Self::Across)
    }
}

/// A test: which program runs, and how its output is read.
#[derive(Clone, Debug, PartialEq)]
pub struct TestDefinition {
    /// The name that entries use.
    pub name: String,
    /// What it measures.
    pub about: String,
    /// The programs.
    pub programs: TestPrograms,
    /// How the output is read.
    pub output: TestOutput,
    /// Seconds after which its programs are stopped.
    pub limit_s: u64,
    /// Parameters with their defaults.
    pub parameters: BTreeMap<String, String>,
    /// Parameters without a default: an entry must set them.
    pub needed: BTreeSet<String>,
    /// Where forge sees that a server listens.
    pub listens: ServerListening,
    /// The recipe whose parameters `user`, `slots` and `launchers` say how a program starts on several hosts.
    pub mesh: Option<String>,
    /// The program that each process runs if the test starts as a job of the cluster; empty if the test has none.
    pub rank_command: Vec<String>,
    /// The collective that PyTorch runs in place of a program: a name of [`TestDefinition::COLLECTIVES`].
    pub collective: Option<String>,
    /// What its results rest on: if it moves, the test is due again.
    pub rests_on: DeclaredBasis,
}

/// The programs of a test, with their arguments. `{name}` in an argument is the parameter `name`; other text in braces
/// belongs to the program: `awk` has `{print}`.
#[derive(Clone, Debug, PartialEq)]
pub enum TestPrograms {
    /// One program on each host.
    Host(Vec<String>),
    /// Two programs on one host: the port of an adapter transfers to itself.
    Loopback {
        /// Waits on TCP port `port`.
        server: Vec<String>,
        /// Connects to `address`.
        client: Vec<String>,
    },
    /// Two programs on two hosts.
    Pair {
        /// Waits on TCP port `port`.
        server: Vec<String>,
        /// Connects to `address`.
        client: Vec<String>,
    },
    /// One program that starts others on all hosts of a group.
    Group(Vec<String>),
}

impl TestPrograms {
    /// Every name in braces for which forge supplies a value, in a test of any scope.
    pub const SUPPLIED_NAMES: [&str; 10] = [
        "address",
        "device",
        "gpu_memory",
        "adapter_address",
        "own_address",
        "gid_index",
        "hosts",
        "ranks",
        "slots",
        "mark",
    ];

    /// Those that depend on the adapter: a test with one of them is run for each adapter.
    const RAIL_NAMES: [&str; 4] = ["device", "adapter_address", "own_address", "gid_index"];

    /// Returns those for which forge supplies a value when such a test runs.
    pub fn list_supplied_names(&self) -> &'static [&'static str] {
        match self {
            Self::Host(_) => &["gpu_memory"],
            Self::Pair { .. } | Self::Loopback { .. } => {
                &["address", "device", "gpu_memory", "adapter_address", "own_address", "gid_index"]
            }
            Self::Group(_) => &["hosts", "ranks", "slots", "mark", "device", "gpu_memory"],
        }
    }

    /// Returns the programs by the key that declares each, a server before its client.
    pub fn list_keyed_programs(&self) -> Vec<(&'static str, &Vec<String>)> {
        match self {
            Self::Host(command) | Self::Group(command) => vec![("command", command)],
            Self::Loopback { server, client } | Self::Pair { server, client } => {
                vec![("server", server), ("client", client)]
            }
        }
    }

    /// Returns the programs with their arguments, a server before its client.
    pub fn list_programs(&self) -> Vec<&Vec<String>> {
        self.list_keyed_programs().into_iter().map(|(_, words)| words).collect()
    }

    /// Returns whether a measurement needs one host only.
    pub fn are_of_one_host(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Loopback { .. })
    }
}

/// Where forge sees that the server of a test listens on `port`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerListening {
    /// In the TCP sockets of the host.
    #[default]
    Tcp,
    /// In the identifiers of the RDMA connection manager, with `rdma resource`.
    Rdma,
}

impl ServerListening {
    /// Every place.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Rdma];

    /// Returns the value of `listens`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }
}

/// Returns each `{name}` of an argument with its position, without variables of a shell and braces of other programs.
pub fn find_placeholders(word: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let starts = word.match_indices('{').map(|(at, _)| at).filter(|at| !word[..*at].ends_with('$'));
    let names = starts.filter_map(|at| word[at + 1..].split_once('}').map(|(name, _)| (at, name)));
    let plain = names.filter(move |(_, name)| !name.is_empty() && name.bytes().all(is_plain));
    plain.map(|(at, name)| (at..at + name.len() + 2, name))
}

impl TestDefinition {
    /// The values of `collective`.
    pub const COLLECTIVES: [&str; 5] = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"];

    /// Returns whether the test is run for each adapter.
    pub fn uses_rails(&self) -> bool {
        let words = self.programs.list_programs().into_iter().flatten();
        let mut names = words.flat_map(|word| find_placeholders(word)).map(|(_, name)| name);
        names.any(|name| TestPrograms::RAIL_NAMES.contains(&name) && !self.parameters.contains_key(name))
    }
}

/// How the output of a test is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOutput {
    /// `ib_write_bw` and similar programs, in Gb/s, for messages of `size` bytes.
    PerftestBandwidth,
    /// `ib_write_lat` and similar programs, in µs.
    PerftestLatency,
    /// `rping -v` at both ends: the number of answered pings, of `count`.
    Rping,
    /// `ibv_rc_pingpong` at both ends: the number of exchanges, of `iterations`.
    Pingpong,
    /// `ucx_perftest -t tag_bw`, in Gb/s.
    Ucx,
    /// `all_reduce_perf` and similar programs, in GB/s.
    Nccl,
    /// `dcgmi diag -j`: the number of passed diagnostics.
    Dcgm,
    /// `fio --output-format=json`, in GB/s.
    Fio,
    /// `sysbench memory --memory-oper=read`, in GB/s.
    Sysbench,
    /// Clocks of GPUs under load: the lowest of them in MHz, at most `below` under the median.
    GpuClocks,
    /// `nvbandwidth`, in GB/s, for the test case `testcase`.
    Nvbandwidth,
    /// The last line is a number, in the test's own unit.
    Number,
}

impl TestOutput {
    /// Every format.
    pub const ALL: [Self; 12] = [
        Self::PerftestBandwidth,
        Self::PerftestLatency,
        Self::Rping,
        Self::Pingpong,
        Self::Ucx,
        Self::Nccl,
        Self::Dcgm,
        Self::GpuClocks,
        Self::Fio,
        Self::Sysbench,
        Self::Nvbandwidth,
        Self::Number,
    ];

    /// Returns the value of `output`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerftestBandwidth => "perftest-bandwidth",
            Self::PerftestLatency => "perftest-latency",
            Self::Rping => "rping",
            Self::Pingpong => "pingpong",
            Self::Ucx => "ucx",
            Self::Nccl => "nccl",
            Self::Dcgm => "dcgm",
            Self::GpuClocks => "gpu-clocks",
            Self::Fio => "fio",
            Self::Sysbench => "sysbench",
            Self::Nvbandwidth => "nvbandwidth",
            Self::Number => "number",
        }
    }

    /// Returns the unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::PerftestBandwidth | Self::Ucx => "Gb/s",
            Self::PerftestLatency => "us",
            Self::Nccl | Self::Fio | Self::Sysbench | Self::Nvbandwidth => "GB/s",
            Self::Rping => "pings",
            Self::Pingpong => "exchanges",
            Self::Dcgm => "diagnostics",
            Self::GpuClocks => "MHz",
            Self::Number => "",
        }
    }

    /// Returns what results rest on, unless the test says so.
    pub fn default_basis(self) -> DeclaredBasis {
        use BasisSource::{Adapters, Driver, Gpus, Kernel, Ofed, Packages};
        let (sources, packages): (&[BasisSource], &[&str]) = match self {
            Self::PerftestBandwidth | Self::PerftestLatency | Self::Rping | Self::Pingpong | Self::Ucx => {
                (&[Kernel, Ofed, Adapters], &[])
            }
            Self::Nccl => (&[Kernel, Driver, Gpus, Ofed, Adapters, Packages], &["libnccl2", "libnccl"]),
            Self::Dcgm | Self::GpuClocks | Self::Nvbandwidth => (&[Kernel, Driver, Gpus], &[]),
            Self::Fio | Self::Sysbench | Self::Number => (&[Kernel], &[]),
        };
        DeclaredBasis {
            sources: sources.iter().copied().collect(),
            packages: packages.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Returns whether the test passes or fails without a limit, so that an entry declares none.
    pub fn has_own_verdict(self) -> bool {
        matches!(self, Self::Dcgm | Self::GpuClocks | Self::Rping | Self::Pingpong)
    }

    /// Returns whether the programs of a server and of its client are judged together.
    pub fn needs_two_ends(self) -> bool {
        matches!(self, Self::Rping | Self::Pingpong)
    }

    /// Returns whether the output can show a fault even if the program was stopped.
    pub fn has_faults(self) -> bool {
        matches!(self, Self::GpuClocks | Self::Rping | Self::Pingpong)
    }

    /// Returns whether the last line is a result also if the limit stopped the program.
    pub fn has_running_result(self) -> bool {
        self == Self::Ucx
    }

    /// Returns whether greater values are better.
    pub fn is_more_better(self) -> bool {
        self != Self::PerftestLatency
    }
}
