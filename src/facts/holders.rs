//! `holders`: processes that have GPU or RDMA devices open.

use super::cgroup;
use super::fact::{Fact, FactShape};
use super::snippet_output::{OutputSection, split_sections, text_or_null};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Without root only one's own open files are visible, and a `find` that cannot compare links would find none: in both
/// cases the host would seem free. If a process ends meanwhile, `find` reports an error that is ignored. Only character
/// devices count: a file below a user's `dev/nvidia-notes` does not. Neither the maps nor the arguments of a process
/// are read: both wait for a lock that a process which hangs in the kernel may hold. Names that users choose are
/// omitted if they contain anything but printable ASCII, so that none can pass for a line of another process.
const SNIPPET: &str = r#"[ "$(id -u)" = 0 ] || { printf 'only root sees who holds a device\n' >&2; exit 3; }
need find
find /proc/self -maxdepth 0 ! -lname x ! -xtype c -printf '' 2>/dev/null || { printf 'this find cannot compare links\n' >&2; exit 4; }
[ -d /proc/self/fd ] || { printf '/proc is not mounted\n' >&2; exit 5; }
f=$(find /proc/[0-9]*/fd -maxdepth 1 -type l \( -lname '*/dev/nvidia*' -o -lname '*/dev/infiniband/*' \) -xtype c -printf '%p\t%l\n' 2>/dev/null)
[ -n "$f" ] || exit 0
printf '\036files\n%s\n' "$f"
l= k=
LC_ALL=C
t=$(printf '\t')
while IFS=$t read -r p _; do
p=${p#/proc/}; p=${p%%/*}
[ "$p" != "$l" ] || continue
l=$p u= c=
while read -r a b _; do [ "$a" != Uid: ] || { u=$b; break; }; done 2>/dev/null <"/proc/$p/status"
read -r c 2>/dev/null <"/proc/$p/comm" || continue
case $c in *[!\ -~]*) c=? ;; esac
printf '\036process\t%s\t%s\t%s\t%s\n' "$p" "$u" "$(id -un -- "$u" 2>/dev/null)" "$c"
while read -r g; do case $g in *[!\ -~]*) continue ;; *kubepods*) k=1 ;; esac; printf '%s\n' "$g"; done 2>/dev/null <"/proc/$p/cgroup"
done <<FORGE_FILES
$f
FORGE_FILES
[ -n "$k" ] || exit 0
printf '\036pods\n'
for d in /var/log/pods/*; do [ ! -d "$d" ] || printf '%s\n' "${d##*/}"; done
:"#;

pub(super) const FACT: Fact = Fact {
    name: "holders",
    doc: "Processes that have a GPU or RDMA device open, a list by process, from the open files of every process: the links in \
          `/proc/PID/fd` to `/dev/nvidia*` and `/dev/infiniband/*`. Unknown without root.",
    shape: FactShape::List,
    fields: &[
        ("pid", "process id"),
        ("user", "its real user, by name, or by number if the host has no name for it"),
        (
            "command",
            "name of its program as recorded by the kernel: at most 15 characters; `?` if it is not plain text",
        ),
        ("devices", "the devices, sorted: `/dev/nvidia0`, `/dev/infiniband/uverbs0`"),
        ("cgroup", "path of its control group"),
        ("unit", "its systemd unit: `nvidia-persistenced.service`, null without one"),
        ("pod", "Kubernetes pod as `NAMESPACE/NAME`, or its UID if the host does not know the name; null without one"),
        ("container", "id of its container, null without one"),
        ("slurm_job", "number of its Slurm job as text, null without one"),
    ],
    reads: &[
        "id -u",
        "find /proc/[0-9]*/fd -lname …",
        "/proc/PID/{status,comm,cgroup}",
        "id -un UID",
        "/var/log/pods/*",
    ],
    alike: &[],
    snippet: FactSnippet {
        name: "holders",
        snippet: SNIPPET,
        timeout_s: 20,
        device: true,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    if output.status != 0 {
        let said = output.stderr.raw().trim();
        return Err(UnansweredReason::new(if said.is_empty() {
            "processes that hold a device could not be read"
        } else {
            said
        }));
    }
    let parts = split_sections(output.stdout.raw());
    let mut devices: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for line in parts.iter().filter(|part| part.name() == "files").flat_map(|part| part.body.lines()) {
        let Some((pid, device)) = parse_open_file(line) else {
            return Err(UnansweredReason::new("an open file is listed in an unexpected format").with_message(line));
        };
        devices.entry(pid).or_default().insert(device);
    }
    let pods: Vec<&str> =
        parts.iter().filter(|part| part.name() == "pods").flat_map(|part| part.body.lines()).collect();
    let processes = parts.iter().filter(|part| part.name() == "process");
    let known: BTreeMap<u64, &OutputSection<'_>> =
        processes.filter_map(|part| Some((part.field_at(1).parse().ok()?, part))).collect();
    // A process that has ended holds nothing any more.
    let held = devices.iter().filter_map(|(pid, devices)| Some((*pid, *known.get(pid)?, devices)));
    Ok(held.map(|(pid, part, devices)| build_holder(pid, part, devices, &pods)).collect::<Vec<_>>().into())
}

/// Parses `/proc/PID/fd/N` and its target from `/dev` on: in a chroot, a path precedes it.
fn parse_open_file(line: &str) -> Option<(u64, &str)> {
    let (path, target) = line.split_once('\t')?;
    let pid = path.strip_prefix("/proc/")?.split('/').next()?.parse().ok()?;
    Some((pid, &target[target.rfind("/dev/")?..]))
}

fn build_holder(pid: u64, part: &OutputSection<'_>, devices: &BTreeSet<&str>, pods: &[&str]) -> Value {
    let owner = cgroup::parse_cgroup(part.body);
    let user = Some(part.field_at(3)).filter(|name| !name.is_empty()).unwrap_or(part.field_at(2));
    json!({
        "pid": pid,
        "user": text_or_null(Some(user)),
        "command": text_or_null(Some(part.field_at(4))),
        "devices": devices,
        "cgroup": owner.path,
        "unit": owner.unit,
        "pod": owner.pod_uid.map(|uid| pod_name(&uid, pods)),
        "container": owner.container,
        "slurm_job": owner.slurm_job,
    })
}

/// Returns a pod's name from the folder of its logs: `NAMESPACE_NAME_UID`.
fn pod_name(uid: &str, folders: &[&str]) -> String {
    let name = folders.iter().find_map(|folder| folder.strip_suffix(uid)?.strip_suffix('_')?.split_once('_'));
    name.map_or_else(|| uid.to_owned(), |(namespace, name)| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    #[test]
    fn device_holders_are_listed_with_user_and_workload() {
        // origin: reconstructed after the kernel's procfs; paths of control groups from public tools' tests
        let text = expand_separators(
            "@@files\n/proc/77/fd/4\t/dev/nvidia0\n/proc/77/fd/5\t/dev/nvidiactl\n/proc/77/fd/9\t/dev/nvidia0\n\
             /proc/81/fd/7\t/srv/jail/dev/infiniband/uverbs1\n/proc/90/fd/3\t/dev/nvidia-uvm\n/proc/99/fd/3\t/dev/nvidia1\n\
             @@process\t77\t0\troot\tnv-fabricmanage\n0::/system.slice/nvidia-fabricmanager.service\n\
             @@process\t81\t1000\talice\tpython3\n0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n\
             @@process\t90\t65532\t\tdcgm-exporter\n0::/kubepods.slice/kubepods-pod12345678_1234_1234_1234_123456789abc.slice/x\n\
             @@pods\ngpu-operator_nvidia-dcgm-exporter-x7k_12345678-1234-1234-1234-123456789abc\n",
        );
        let holders = parse_stdout(&FACT, &text).expect("is known");
        assert_eq!(
            holders[0],
            json!({"pid": 77, "user": "root", "command": "nv-fabricmanage", "devices": ["/dev/nvidia0", "/dev/nvidiactl"],
                   "cgroup": "/system.slice/nvidia-fabricmanager.service", "unit": "nvidia-fabricmanager.service",
                   "pod": null, "container": null, "slurm_job": null})
        );
        let of = |at: usize, key: &str| holders[at][key].clone();
        assert_eq!(
            (of(1, "devices"), of(1, "slurm_job"), of(1, "user")),
            (json!(["/dev/infiniband/uverbs1"]), json!("42"), json!("alice"))
        );
        assert_eq!((of(2, "pod"), of(2, "user")), (json!("gpu-operator/nvidia-dcgm-exporter-x7k"), json!("65532")));
        assert_eq!(holders.as_array().map(Vec::len), Some(3), "99 ended meanwhile");
    }

    #[test]
    fn unprivileged_query_is_unknown_not_empty() {
        let output =
            ProbeOutput { status: 3, stderr: "only root sees who holds a device\n".into(), ..ProbeOutput::default() };
        assert_eq!(parse(&output).expect_err("is unknown").why, "only root sees who holds a device");
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
        assert!(parse_stdout(&FACT, &expand_separators("@@files\nodd\n")).is_err());
    }
}
