//! The owner of a process, by its control group: a unit, a pod, a container, a Slurm job.

/// The owner that a control group names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupOwner {
    /// The path, in the unified hierarchy if there is one.
    pub path: String,
    /// The system unit: `nvidia-persistenced.service`, `session-3.scope`.
    pub unit: Option<String>,
    /// The UID of the Kubernetes pod.
    pub pod_uid: Option<String>,
    pub container: Option<String>,
    /// The number of the Slurm job.
    pub slurm_job: Option<String>,
}

/// Parses `/proc/PID/cgroup` of both cgroup versions.
pub fn parse_cgroup(text: &str) -> CgroupOwner {
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    // In cgroup v1 the hierarchies may differ: systemd's hierarchy names the unit, the one of devices names the job.
    let rank = |(number, controllers, path): &(&str, &str, &str)| {
        let depth = path.matches('/').count();
        (depth > 1, *number == "0" && controllers.is_empty(), controllers.contains("name=systemd"), depth)
    };
    let rows: Vec<(&str, &str, &str)> = rows.collect();
    let path = rows.iter().max_by_key(|row| rank(row)).map_or("", |(_, _, path)| path);
    let all: Vec<&str> = rows.iter().flat_map(|(_, _, path)| path.split('/')).collect();
    CgroupOwner {
        path: path.to_owned(),
        unit: path.split('/').find(|name| name.ends_with(".service") || name.ends_with(".scope")).map(unescape_unit),
        pod_uid: all.iter().find_map(|name| parse_pod_uid(name)),
        container: all.iter().find_map(|name| parse_container_id(name)),
        slurm_job: all.iter().find_map(|name| parse_job_number(name)),
    }
}

/// Returns a unit's name without the two escapes that systemd uses in control group paths.
fn unescape_unit(name: &str) -> String {
    name.strip_prefix('_').unwrap_or(name).replace("\\x2d", "-")
}

/// Returns the UID in `kubepods-burstable-podUID.slice` (with underscores) or `podUID`.
fn parse_pod_uid(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = name
        .rsplit_once("pod")
        .filter(|(before, _)| before.is_empty() || before.starts_with("kubepods"))?
        .1
        .replace('_', "-");
    (uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')).then_some(uid)
}

/// Returns the id in `cri-containerd-ID.scope`, `docker-ID.scope` or a folder with that name.
fn parse_container_id(name: &str) -> Option<String> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit(['-', ':']).next()?;
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then(|| id.to_owned())
}

fn parse_job_number(name: &str) -> Option<String> {
    let number = name.strip_prefix("job_")?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_parsed_from_cgroup_path() {
        let unit = |text| parse_cgroup(text).unit;
        assert_eq!(
            unit("0::/system.slice/nvidia-persistenced.service\n").as_deref(),
            Some("nvidia-persistenced.service")
        );
        assert_eq!(unit("0::/user.slice/user-1000.slice/session-3.scope\n").as_deref(), Some("session-3.scope"));
        assert_eq!(
            unit("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n").as_deref(),
            Some("user@1000.service")
        );
        assert_eq!(unit("0::/\n"), None);
        let v1 = "12:devices:/system.slice/nvidia-fabricmanager.service\n1:name=systemd:/system.slice/nvidia-fabricmanager.service\n0::/\n";
        assert_eq!(unit(v1).as_deref(), Some("nvidia-fabricmanager.service"));
    }

    #[test]
    fn pod_and_container_are_parsed_for_both_cgroup_drivers() {
        // origin: field, paths published in tests of public tools
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let systemd = format!(
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12345678_1234_1234_1234_123456789abc.slice/cri-containerd-{id}.scope\n"
        );
        let cgroupfs = format!("0::/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/{id}\n");
        for text in [systemd, cgroupfs] {
            let owner = parse_cgroup(&text);
            assert_eq!(owner.pod_uid.as_deref(), Some("12345678-1234-1234-1234-123456789abc"), "{text}");
            assert_eq!(owner.container.as_deref(), Some(id));
        }
        let guaranteed = "0::/kubepods.slice/kubepods-podd80f4a0e_576f_47a8_a0cf_69dc23dc1980.slice/x\n";
        assert_eq!(parse_cgroup(guaranteed).pod_uid.as_deref(), Some("d80f4a0e-576f-47a8-a0cf-69dc23dc1980"));
        assert_eq!(parse_cgroup("0::/system.slice/tripod.service\n").pod_uid, None);
    }

    #[test]
    fn slurm_job_is_parsed_for_both_cgroup_versions() {
        // origin: field, compute nodes in tests of public tools
        let job = |text| parse_cgroup(text).slurm_job;
        assert_eq!(
            job("0::/system.slice/slurmstepd.scope/job_1392969/step_0/user/task_0\n").as_deref(),
            Some("1392969")
        );
        assert_eq!(job("10:devices:/slurm/uid_2101171/job_280678/step_interactive/task_0\n1:name=systemd:/system.slice/slurmd.service\n").as_deref(), Some("280678"));
        assert_eq!(job("0::/system.slice/slurmstepd.scope/system\n"), None);
    }
}
