//! Who holds the host's GPU and RDMA devices: what every process has open, told with its user, its command and the
//! unit, pod or job that it belongs to.
//!
//! Only links under `/proc` are read: no device is opened, and none can hold the question up.

use super::section::{Fields, Raw, Section, text};
use super::{Consumer, Holder, Observation, Probe, Reading};
use crate::model::Untrusted;

/// Prints fields: for each process `holder`, pid, devices (one a line), user, cgroups, command; then `end`. Without
/// the rights to look into every process there is no answer. A process that ended meanwhile holds nothing.
const SNIPPET: &str = r#"need find; need xargs; need sort; need stat; need tr
find /proc/self/fd -maxdepth 0 -lname x -printf '' || exit 2
ls /proc/1/fd >/dev/null || exit 3
t=$(printf '%s\0' /proc/[0-9]*/fd | xargs -0 sh -c \
'find "$@" -maxdepth 1 \( -lname "/dev/nvidia*" -o -lname "/dev/infiniband/*" \) -printf "%h %l\n" 2>/dev/null; exit 0' find \
| sort -u) || exit 2
for d in $(printf '%s\n' "$t" | sed -n 's/^\(\/proc\/[0-9]*\)\/fd .*/\1/p' | sort -u); do
u=$(stat -c %U "$d" 2>/dev/null) || continue
g=$(cat "$d/cgroup" 2>/dev/null) || g=
c=$(tr '\000' ' ' <"$d/cmdline" 2>/dev/null) || c=
f=$(printf '%s\n' "$t" | sed -n "s|^$d/fd ||p")
printf 'holder\0%s\0%s\0%s\0%s\0%s\0' "${d#/proc/}" "$f" "$u" "$g" "$c"
done
printf 'end\0'
"#;

pub(crate) fn section(probes: Vec<Probe>) -> Option<Section> {
    let mut section = Section::new("reading who holds devices", probes, read);
    section.body = section.body.code(SNIPPET);
    section.timeout_s = 60;
    (!section.probes.is_empty()).then_some(section)
}

fn read(section: &Section, raw: &Raw, out: &mut Observation) {
    let holders = if raw.is_whole(&[0]) { parse(&raw.stdout) } else { None };
    for probe in &section.probes {
        out.insert(probe.clone(), holders.clone().map(Reading::Holders).ok_or_else(|| raw.lack(section)));
    }
}

fn parse(stdout: &[u8]) -> Option<Vec<Holder>> {
    let mut fields = Fields::new(stdout);
    let mut holders = Vec::new();
    loop {
        match fields.next()? {
            b"holder" => {
                let [pid, devices, user, cgroup, command] = fields.row()?;
                holders.push(Holder {
                    pid: text(pid)?.parse().ok()?,
                    user: Untrusted::from_bytes(user),
                    command: String::from_utf8_lossy(command).trim().into(),
                    devices: String::from_utf8_lossy(devices).lines().map(Untrusted::from).collect(),
                    consumer: consumer(&String::from_utf8_lossy(cgroup)),
                });
            }
            b"end" => return Some(holders),
            _ => return None,
        }
    }
}

/// Returns who a process belongs to, by its control groups as `/proc/PID/cgroup` shows them.
fn consumer(cgroups: &str) -> Consumer {
    let path = |line: &str| line.splitn(3, ':').nth(2).map(str::to_owned);
    let unified = cgroups.lines().find(|line| line.starts_with("0::")).and_then(path).filter(|path| path != "/");
    let named = || cgroups.lines().find(|line| line.contains(":name=systemd:")).and_then(path);
    let Some(path) = unified.or_else(named) else { return Consumer::Process };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    job(&parts).or_else(|| pod(&parts)).or_else(|| unit(&parts)).unwrap_or(Consumer::Process)
}

/// Slurm makes `job_123` below the scope of its step daemon, or `uid_1000/job_123` in older versions.
fn job(parts: &[&str]) -> Option<Consumer> {
    let slurm = parts.iter().any(|part| part.contains("slurm"));
    let id = parts.iter().find_map(|part| part.strip_prefix("job_"))?;
    (slurm && id.bytes().all(|b| b.is_ascii_digit())).then(|| Consumer::SlurmJob(id.into()))
}

/// The kubelet's slices end with the pod's uid; with systemd as driver its dashes are underscores.
fn pod(parts: &[&str]) -> Option<Consumer> {
    parts.iter().find(|part| part.starts_with("kubepods"))?;
    let uid = parts.iter().find_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        part.rsplit_once("pod").map(|(_, uid)| uid).filter(|uid| uid.len() >= 32)
    })?;
    Some(Consumer::Pod(uid.replace('_', "-").as_str().into()))
}

fn unit(parts: &[&str]) -> Option<Consumer> {
    let service = parts.iter().rev().find(|part| part.ends_with(".service") && !part.starts_with("user@"));
    service.map(|unit| Consumer::Unit((*unit).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::section::testing::{answers, printed, recorded};

    #[test]
    fn a_holder_is_told_with_all_that_is_known() {
        let fixture = "origin: reconstructed\nholder\\0\
            4711\\0/dev/nvidia0\n/dev/nvidiactl\\0alice\\00::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\\0\
            python3 train.py \\0end\\0";
        let section = section(vec![Probe::Holders]).unwrap();
        let Ok(Reading::Holders(holders)) = answers(&section, &recorded(fixture)).get(&Probe::Holders).cloned() else {
            panic!("no answer")
        };
        assert_eq!(holders.len(), 1);
        let told = "pid 4711 (python3 train.py) of alice, Slurm job 123, holds /dev/nvidia0, /dev/nvidiactl";
        assert_eq!(holders[0].told().raw(), told);
    }

    #[test]
    fn half_an_answer_is_none() {
        let section = section(vec![Probe::Holders]).unwrap();
        for text in ["", "holder\x004711\0", "what\0end\0"] {
            assert!(answers(&section, &printed(text)).get(&Probe::Holders).is_err(), "{text:?}");
        }
        assert_eq!(answers(&section, &printed("end\0")).get(&Probe::Holders), Ok(&Reading::Holders(Vec::new())));
    }

    #[test]
    fn control_groups_tell_who_it_is() {
        let of = |text: &str| consumer(text);
        assert_eq!(
            of("0::/system.slice/nvidia-fabricmanager.service"),
            Consumer::Unit("nvidia-fabricmanager.service".into())
        );
        let pod = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c5e0f5e_1b1c_4b0e_9b3a_111122223333.slice/cri-containerd-aa.scope";
        assert_eq!(of(pod), Consumer::Pod("0c5e0f5e-1b1c-4b0e-9b3a-111122223333".into()));
        let old = "12:devices:/slurm/uid_1000/job_77/step_0\n1:name=systemd:/slurm/uid_1000/job_77/step_0";
        assert_eq!(of(old), Consumer::SlurmJob("77".into()));
        assert_eq!(of("0::/user.slice/user-1000.slice/session-3.scope"), Consumer::Process);
        let own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service";
        assert_eq!(of(own), Consumer::Unit("jupyter.service".into()));
        assert_eq!(of("0::/\n1:name=systemd:/system.slice/x.service"), Consumer::Unit("x.service".into()));
        assert_eq!(of(""), Consumer::Process);
    }
}
