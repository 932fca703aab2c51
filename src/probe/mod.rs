//! The queries that forge sends to a host: a closed set of read-only probes, merged into one script, and their answers.
//!
//! Architecture Invariants: a probe never changes a host. Probes of one kind are merged (one `dpkg-query`, one
//! `systemctl show`, one `stat`), and quick ones share a process, in which each has its own status, stderr and output
//! cap. Each section is framed with a random token, its length and its exit status, and has its own time limit. A probe
//! without an answer is `Unknown` with the reason; a missing end frame means a lost link, for the whole script.

mod account_state;
mod answer_pool;
mod apt;
mod apt_source;
mod authorized_keys;
mod boot;
mod check;
mod cmdline;
mod conf_line;
mod confd;
mod dnf_source;
mod evidence;
mod evidence_state;
mod exchange;
mod fact;
mod frame;
mod initramfs;
mod kernel_module;
mod kernel_state;
mod key_file;
mod mount;
mod mount_state;
mod objects_query;
mod observation;
mod package;
mod package_family;
mod package_file;
mod package_manager;
mod package_state;
mod path;
mod path_state;
mod query;
mod reading;
mod recorded_answers;
mod records;
mod records_state;
mod replay;
mod replay_sections;
mod rpm;
mod rpm_offers;
mod rpm_order;
mod section;
mod section_group;
mod section_sorting;
mod shell;
mod sysctl;
mod unanswered;
mod unit;
mod unit_state;
mod unix_group;
mod user;
mod version_lock;

pub use account_state::{GroupInfo, GroupState, ScriptAccount, UserInfo, UserState};
pub use answer_pool::AnswerPool;
pub use boot::*;
pub use check::ProbeCheckOptions;
pub use conf_line::ConfLine;
pub(crate) use dnf_source::DNF_CONF;
pub(crate) use evidence::{JOURNAL_CAP, JOURNAL_ENTRIES};
pub use evidence_state::{EvidencePart, EvidenceState};
pub(crate) use exchange::KEY_LEFT_OUT;
pub use exchange::ProbeExchange;
pub use frame::{CompiledProbes, FrameError, compile_probes, parse_output};
pub(crate) use initramfs::NEXT_KERNEL;
pub(crate) use kernel_module::is_alias_match;
pub use kernel_state::{ModulePresence, ModuleState, SysctlState, SysctlValue};
pub use mount_state::{FstabLine, MountState, ObservedMount};
pub use objects_query::ObjectsQuery;
pub use observation::Observation;
pub(crate) use package::upstream_version;
pub(crate) use package_family::is_family_pattern;
pub use package_state::{
    AptEntry, DnfEntry, DnfSources, FamilyMember, HoldObstacle, PackageFamilyState, PackageFileInfo, PackageFileState,
    PackageManagerKind, PackageManagerState, PackageState,
};
pub use path_state::{AuthorizedKeysInfo, AuthorizedKeysState, KeyFileState, PathInfo, PathState, PathType};
pub(crate) use query::BODY_CAP;
pub use query::{AptOfferPolicy, CheckProbe, FactSnippet, Probe};
pub use reading::{ProbeOutput, ProbeReading};
pub use recorded_answers::{recall_answers, with_script_digest};
pub(crate) use records::{WRITER_SNIPPET, parse_writer};
pub use records_state::{GuardState, GuardTrace, HoldMark, RecordsState, WriterTrace};
pub use replay::replay_exchanges;
pub use replay_sections::ReplaySections;
pub(crate) use rpm_order::compare_rpm_versions as compare_rpm;
pub use unanswered::UnansweredReason;
pub use unit_state::{RelatedUnit, UnitState};
