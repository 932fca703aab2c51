//! Where a program of a group starts: the launching host, the account, and the number of processes per host.

use super::test_host::TestHost;
use crate::config::{DeclaredTest, Project};
use crate::model::{HostName, Value};

/// How a program starts on the hosts of a group.
pub(super) struct GroupLaunch<'h> {
    /// The host that starts it.
    pub launcher: &'h TestHost<'h>,
    /// The account that logs in to the hosts.
    pub user: String,
    /// Processes per host.
    pub slots: u64,
}

/// Returns how a test starts on a group. Parameters of the test that are not empty override those of its mesh.
///
/// # Errors
/// A setting is missing, and named: an account, the processes per host, or a host that may start programs.
pub(super) fn find_launch<'h>(
    project: &Project,
    test: &DeclaredTest,
    group: &[&'h TestHost<'h>],
    tested: &[&'h TestHost<'h>],
) -> Result<GroupLaunch<'h>, String> {
    let settings = LaunchSettings { project, test };
    let first = group.first().ok_or("the group is empty")?;
    let user = settings.read_text("user", &first.name).ok_or_else(|| settings.describe_missing("user"))?;
    let slots = settings.read_text("slots", &first.name).ok_or_else(|| settings.describe_missing("slots"))?;
    let slots = slots.parse::<u64>().ok().filter(|slots| *slots > 0);
    let slots = slots.ok_or("the parameter `slots` is not a number of processes")?;
    let allowed = settings.list_launchers(&first.name);
    let hosts: Vec<&'h TestHost<'h>> = group.iter().chain(tested).copied().collect();
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let launcher = choose_launcher(&names, &allowed)?;
    Ok(GroupLaunch { launcher: hosts[launcher], user, slots })
}

/// Returns the place of the first host that may start programs: any host if none is named.
fn choose_launcher(hosts: &[&str], allowed: &[String]) -> Result<usize, String> {
    let may_start = |host: &&str| allowed.is_empty() || allowed.iter().any(|name| name == host);
    let missing = || format!("{} starts the programs, and is not among the tested hosts", allowed.join(", "));
    hosts.iter().position(may_start).ok_or_else(missing)
}

struct LaunchSettings<'p> {
    project: &'p Project,
    test: &'p DeclaredTest,
}

impl LaunchSettings<'_> {
    fn read_text(&self, name: &str, host: &HostName) -> Option<String> {
        self.own(name).or_else(|| match self.of_mesh(name, host)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            value => value.as_u64().map(|number| number.to_string()),
        })
    }

    fn list_launchers(&self, host: &HostName) -> Vec<String> {
        if let Some(own) = self.own("launcher") {
            return vec![own];
        }
        let listed = self.of_mesh("launchers", host).and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn own(&self, name: &str) -> Option<String> {
        self.test.parameters.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Returns a parameter of the recipe that connects the hosts.
    fn of_mesh(&self, name: &str, host: &HostName) -> Option<&Value> {
        let mesh = self.test.definition.mesh.as_ref()?;
        let instances = self.project.instances.get(host)?;
        let instance = instances.iter().find(|instance| instance.recipe.name == *mesh && !instance.absent)?;
        instance.params.get(name).map(|value| &value.value)
    }

    fn describe_missing(&self, name: &str) -> String {
        match &self.test.definition.mesh {
            Some(mesh) => format!("the parameter `{name}` has no value; apply the recipe `{mesh}`, or set it"),
            None => format!("the parameter `{name}` has no value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_with_the_key_start_programs() {
        let hosts = ["b", "c", "a", "b", "c"];
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(choose_launcher(&hosts, &[]), Ok(0), "the first host of the group");
        assert_eq!(choose_launcher(&hosts, &named(&["a", "c"])), Ok(1), "a host of the group, if possible");
        assert_eq!(choose_launcher(&hosts, &named(&["a"])), Ok(2));
        let missing = "x, y starts the programs, and is not among the tested hosts".to_owned();
        assert_eq!(choose_launcher(&hosts, &named(&["x", "y"])), Err(missing));
    }
}
