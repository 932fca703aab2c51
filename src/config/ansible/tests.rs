//! Tests of whole inventories: the conversion and the listed differences.

use super::*;
use crate::config::cpu_time::thread_cpu_time;
use crate::config::starter_inventory::StarterHost;
use indexmap::IndexMap;
use serde_json::json;

fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, camino::Utf8PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let path = camino::Utf8Path::from_path(folder.path()).unwrap().to_owned();
    (folder, path)
}

fn convert(files: &[(&str, &str)]) -> (StarterInventory, Vec<String>) {
    let (_folder, path) = folder(files);
    let converted = convert_ansible_inventory(&path.join(files[0].0), "c");
    assert!(!converted.diags.has_errors(), "{:?}", converted.diags);
    let root = format!("{path}/");
    let said = converted.differences.iter().map(|d| format!("{}: {}", d.at.join(", ").replace(&root, ""), d.what));
    (converted.starting.unwrap(), said.collect())
}

fn mistake(files: &[(&str, &str)]) -> String {
    let (_folder, path) = folder(files);
    let converted = convert_ansible_inventory(&path.join(files[0].0), "c");
    assert!(converted.starting.is_none());
    let diag = &converted.diags.0[0];
    format!("{}{}", diag.message, diag.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())
        .replace(&format!("{path}/"), "")
}

#[test]
fn connection_variables_become_settings() {
    let text = "[web]\nw1 ansible_host=10.0.0.1 ansible_user=admin ansible_port=2222 rack=a\nw2:22 ansible_connection=local\n\
                [web:vars]\nansible_become=yes\nansible_ssh_private_key_file=~/.ssh/k\n";
    let (starting, said) = convert(&[("hosts", text)]);
    let host = &starting.hosts["w1"];
    assert_eq!(host.address.as_deref(), Some("10.0.0.1"));
    assert_eq!(host.connect, [("port", json!(2222)), ("user", json!("admin"))].into());
    assert_eq!(host.vars, IndexMap::from([("rack".to_owned(), json!("a"))]));
    assert_eq!(starting.hosts["w2"].connect, [("port", json!(22)), ("transport", json!("local"))].into());
    assert_eq!(starting.groups["web"].connect, [("identity", json!("~/.ssh/k")), ("sudo", json!(true))].into());
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn ssh_arguments_become_settings() {
    let text = "[web]\nw1 ansible_ssh_common_args='-F /etc/site/ssh_config'\nw2 ansible_ssh_common_args='-F~/c'\n\
                w3 ansible_ssh_common_args='-F none'\nw4 ansible_ssh_common_args='-J me@bastion,inner'\n";
    let (starting, said) = convert(&[("hosts", text)]);
    let connect = ["w1", "w2", "w3", "w4"].map(|host| starting.hosts[host].connect.clone());
    let expected = [
        [("config", json!("/etc/site/ssh_config"))].into(),
        [("config", json!("~/c"))].into(),
        [].into(),
        [("jump", json!("me@bastion,inner"))].into(),
    ];
    assert_eq!(connect, expected);
    let why = "hosts:4: `ansible_ssh_common_args` is not converted: forge supports only jump hosts and `-F` in ssh \
               arguments; put other options into `~/.ssh/config`, or into a file that you set as \
               `connect: { config: FILE }`";
    assert_eq!(said, [why]);
}

/// Each option is converted by itself; the value of another option may be a password and is not shown.
#[test]
fn unsupported_ssh_arguments_do_not_prevent_the_others() {
    let text = "[web]\nw1 ansible_ssh_common_args='-o ProxyJump=bastion -F /etc/ssh/x'\n\
                w2 ansible_ssh_common_args='-C -o ProxyJump=bastion -o StrictHostKeyChecking=no -i key'\n\
                w3 ansible_ssh_common_args='-i -F -oproxyjump=b'\n";
    let (starting, said) = convert(&[("hosts", text)]);
    let both = [("jump", json!("bastion")), ("config", json!("/etc/ssh/x"))].into();
    assert_eq!(starting.hosts["w1"].connect, both);
    assert_eq!(starting.hosts["w2"].connect, [("jump", json!("bastion"))].into());
    assert_eq!(starting.hosts["w3"].connect, [("jump", json!("b"))].into());
    let why = ssh_args::NOT_CONVERTED;
    let expected = [("3", "-C"), ("3", "-o StrictHostKeyChecking"), ("3, hosts:4", "-i")]
        .map(|(line, option)| format!("hosts:{line}: `ansible_ssh_common_args`: `{option}` {why}"));
    assert_eq!(said, expected);
}

/// ssh uses the first value of an option: `none` prevents a later jump host.
#[test]
fn direct_connection_is_not_a_jump_host() {
    let text = "[web:vars]\nansible_ssh_common_args='-J gate'\n[web]\n\
                w1 ansible_ssh_common_args='-o ProxyJump=none -F /etc/ssh/x'\n\
                w2 ansible_ssh_common_args='-J NONE -o ProxyJump=bastion'\n\
                w3 ansible_ssh_common_args='-J bastion -o ProxyJump=none'\n";
    let (starting, said) = convert(&[("hosts", text)]);
    assert_eq!(starting.hosts["w1"].connect, [("config", json!("/etc/ssh/x"))].into());
    assert_eq!(starting.hosts["w2"].connect, [].into());
    assert_eq!(starting.hosts["w3"].connect, [("jump", json!("bastion"))].into());
    let why = ssh_args::NOT_CONVERTED;
    let expected = [
        format!("hosts:4, hosts:5, hosts:6: `ansible_ssh_common_args`: `-o ProxyJump` {why}"),
        format!("hosts:5: `ansible_ssh_common_args`: `-J` {why}"),
        "group web: the setting `jump` is set on each host: forge resolves conflicts between groups by other rules"
            .to_owned(),
    ];
    assert_eq!(said, expected);
}

#[test]
fn unsupported_variables_are_listed_with_their_location() {
    let text = "[web]\nw1 ansible_password=x ansible_python_interpreter=/usr/bin/python3 t=\"{{ y }}\" my-var=1\n\
                w2 ansible_python_interpreter=/usr/bin/python3 ansible_connection=winrm v=1.50\n";
    let (starting, said) = convert(&[("hosts", text)]);
    assert!(starting.hosts.values().all(|host| *host == StarterHost::default() || host.vars.len() == 1));
    assert_eq!(
        said,
        [
            "hosts:3: `v`: `1.50` is a fraction in Ansible; forge does not support fractions and keeps the text",
            "hosts:2: `ansible_password` is not converted: forge supports login with keys only",
            "hosts:2, hosts:3: `ansible_python_interpreter` is not converted: forge does not need Python on hosts",
            "hosts:2: `my-var` is not converted: variable names may contain only letters, digits and `_`",
            "hosts:3: `ansible_connection` is not converted: forge does not support connection `winrm`; \
             set `connect: { command: […] }` to run a program that opens a shell",
            "hosts:2: `t` is not converted: it contains a template, and variables are literal in forge",
        ]
    );
}

#[test]
fn templates_of_known_variables_are_resolved_for_each_host() {
    let text = "[web]\nw1\nw2 root=/data\nw3 own='{{ base }}/{{ port }}'\n[web:vars]\nroot=/srv\nport=80\n\
                base='{{ root }}/app'\nplain='{{ port }}'\nopen='{{ nothing }}/x'\nloop='{{ loop }}'\n\
                v=1.50\nof='{{ v }}/x'\nansible_user='{{ login }}'\nlogin=admin\n";
    let (starting, said) = convert(&[("hosts", text)]);
    let group = &starting.groups["web"];
    // A value that all hosts agree on stays at the group. A value that one of them overrides moves to each host.
    assert_eq!((&group.vars["plain"], group.vars.get("base")), (&json!(80), None));
    assert_eq!(group.connect, [("user", json!("admin"))].into());
    let base = |host: &str| starting.hosts[host].vars["base"].clone();
    assert_eq!((base("w1"), base("w2")), (json!("/srv/app"), json!("/data/app")));
    assert_eq!(starting.hosts["w3"].vars["own"], json!("/srv/app/80"));
    let fraction = "its template reads a variable that may be a fraction, which Ansible writes in another form";
    let literal = "it contains a template, and variables are literal in forge";
    for (name, why) in [("open", literal), ("loop", literal), ("of", fraction)] {
        let lost = format!("`{name}` is not converted: {why}");
        assert_eq!(said.iter().filter(|line| line.ends_with(&lost)).count(), 1, "{name}: {said:?}");
    }
    let moved = "group web: `base` is set on each host: its template reads variables from other sources";
    assert!(said.iter().any(|line| line == moved), "{said:?}");
    assert_eq!(said.iter().filter(|line| line.contains("contains a template")).count(), 2, "{said:?}");
}

/// A few lines may expand to more than the memory of any machine.
#[test]
fn oversized_templates_are_listed_and_the_others_converted() {
    let doubled = |at: usize| format!("a{at}: \"{{{{ a{0} }}}}{{{{ a{0} }}}}\"\n", at - 1);
    let pairs = |at: usize| format!("a{at}: [\"{{{{ a{0} }}}}\", \"{{{{ a{0} }}}}\"]\n", at - 1);
    let nested = |at: usize| format!("a{at}: [\"{{{{ a{} }}}}\"]\n", at - 1);
    let large = "is not converted: its template expands to more than 1 MiB";
    let deep = "is not converted: its template expands to more than 56 levels";
    type Link<'l> = &'l dyn Fn(usize) -> String;
    let cases: [(Link<'_>, usize, &str); 3] = [(&doubled, 40, large), (&pairs, 40, large), (&nested, 2000, deep)];
    for (link, links, why) in cases {
        let mut vars = "a0: xxxx\n".to_owned();
        (1..=links).for_each(|at| vars.push_str(&link(at)));
        vars.push_str("fine: \"{{ a0 }}/x\"\n");
        let began = thread_cpu_time();
        let (mut carried, mut said) = (IndexMap::new(), Vec::new());
        let used = allocation_counter::measure(|| {
            let (starting, differences) =
                convert(&[("hosts", "[web]\nw1\nw2\n"), ("group_vars/all.yml", vars.as_str())]);
            (carried, said) = (starting.groups["all"].vars.clone(), differences);
        });
        assert_eq!(carried["fine"], json!("xxxx/x"));
        let first = (1..=links).find(|at| !carried.contains_key(&format!("a{at}"))).unwrap();
        assert!((10..60).contains(&first), "{first}");
        assert!(said.contains(&format!("group_vars/all.yml:{}: `a{first}` {why}", first + 1)), "{first}: {said:?}");
        assert_eq!(said.len(), links + 1 - first, "each is named");
        assert!(used.bytes_max < 200 << 20, "{} bytes", used.bytes_max);
        let took = thread_cpu_time() - began;
        assert!(took.as_secs() < 20, "{took:?}");
    }
}

/// A value that cannot be converted still overrides lower layers.
#[test]
fn unconverted_value_still_overrides_lower_layers() {
    let text = "[web]\nw1 x='{{ y }}'\nw2\n[web:vars]\nx=1\n";
    let (starting, said) = convert(&[("hosts", text)]);
    assert_eq!(starting.hosts["w1"].vars.get("x"), None);
    assert_eq!(starting.hosts["w2"].vars["x"], json!(1));
    assert_eq!(starting.groups["web"].vars.get("x"), None);
    assert!(said.iter().any(|line| line.starts_with("group web: `x` is set on each host")), "{said:?}");
}

#[test]
fn conflicting_group_variables_move_to_the_hosts() {
    let text = "[a]\nh1\nh2\n[b]\nh2\n[a:vars]\nx=1\ny=1\n[b:vars]\nx=2\n";
    let (starting, _) = convert(&[("hosts", text)]);
    assert_eq!((&starting.hosts["h1"].vars["x"], &starting.hosts["h2"].vars["x"]), (&json!(1), &json!(2)));
    assert_eq!(starting.groups["a"].vars, IndexMap::from([("y".to_owned(), json!(1))]));
}

#[test]
fn variable_files_override_the_inventory() {
    let files = [
        ("hosts.ini", "[web]\nw1 z=1\n[web:vars]\nx=1\ny=1\n"),
        ("group_vars/all.yml", "x: 2\nmode: 0644\non: yes\n"),
        ("group_vars/web/a.yml", "y: 2\n"),
        ("group_vars/none.yml", "y: 2\n"),
        ("host_vars/w1", "z: 2\nsecret: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  61\n"),
    ];
    let (starting, said) = convert(&files);
    let vars = &starting.hosts["w1"].vars;
    assert_eq!((&vars["x"], &vars["z"]), (&json!(2), &json!(2)));
    assert_eq!(starting.groups["web"].vars["y"], json!(2));
    assert_eq!(starting.groups["all"].vars["mode"], json!(420));
    assert_eq!(starting.groups["all"].vars["on"], json!(true));
    for expected in [
        "group_vars/all.yml:2: `mode`: `0644` is the number 420 in Ansible and is converted to it",
        "group_vars/none.yml: variables of group `none`, which is not in the inventory",
        "host_vars/w1:2: `secret` is encrypted with Ansible Vault; forge reads secrets as `{ env: NAME }` or `{ file: PATH }`",
    ] {
        assert!(said.iter().any(|line| line == expected), "{expected}\nin {said:#?}");
    }
}

#[test]
fn invalid_names_are_changed_and_duplicate_hosts_skipped() {
    let (starting, said) =
        convert(&[("hosts", "fe80::1\n[web]\nweb\nw_é\nx ansible_host=10.0.0.1\ny ansible_host=10.0.0.1\n")]);
    assert_eq!(starting.hosts.keys().collect::<Vec<_>>(), ["fe80--1", "web", "w_-", "x"]);
    assert_eq!(starting.hosts["fe80--1"].address.as_deref(), Some("fe80::1"));
    assert_eq!(starting.groups["web_group"].hosts, ["web", "w_-", "x"]);
    assert!(said.contains(&"host y: is skipped: it is the same machine as `x` (`10.0.0.1`)".to_owned()), "{said:?}");
}

#[test]
fn conversion_errors_name_the_entry_and_the_fix() {
    assert_eq!(mistake(&[("hosts", "[web]\nw1 x\n")]), "expected `key=value` for host `w1`, found `x`");
    assert_eq!(
        mistake(&[("hosts", "[web:kids]\n")]),
        "`[web:kids]` is not a valid section (write `[group]`, `[group:children]` or `[group:vars]`)"
    );
    assert_eq!(
        mistake(&[("hosts", "[a:children]\nb\n")]),
        "group `b` is not declared (add a section `[b]`; it may be empty)"
    );
    assert_eq!(mistake(&[("hosts", "[a:children]\nb\n[b:children]\na\n")]), "groups `b` and `a` contain each other");
    assert_eq!(mistake(&[("hosts", "n[2:1]\n")]), "host `n[2:1]`: `[2:1]` runs backwards");
    assert_eq!(
        mistake(&[("hosts.py", "#!/usr/bin/python3\n")]),
        "`hosts.py` is a program; forge does not run inventory programs (save its output first: `ansible-inventory -i hosts.py --list --yaml --export > hosts.yaml`)"
    );
    assert_eq!(
        mistake(&[("a.yml", "plugin: aws_ec2\n")]),
        "this file configures an Ansible plugin that queries another system for hosts"
    );
    assert!(mistake(&[("a.yml", "all: [\n")]).len() > 5);
}
