//! Changes of units that change other units, too, are shown by the plan and undone, as systemd itself says.

use crate::distribution::Distribution;
use crate::support::{Fleet, Node, Project};

const RECIPE: &str = r#"
recipe: units
summary: Units that change others
steps:
  - name: database
    service: { name: db, state: stopped }
  - name: newer
    service: { name: newer }
  - name: elsewhere
    service: { name: elsewhere, enabled: true }
  - name: main
    service: { name: main, enabled: true }
  - name: package
    package: { name: forge-demo }
  - name: gone
    when: "false"
    otherwise: absent
    service: { name: gone }
"#;

/// The unit that conflicts with the other one is stopped by a step of its own.
const SWAP: &str = r#"
recipe: swap
summary: One unit in place of another
steps:
  - name: older
    service: { name: older, state: stopped }
  - name: newer
    service: { name: newer }
"#;

/// `app` requires `db`, `web` is a part of `app`, `newer` conflicts with `older`, the file of `elsewhere` is outside of
/// systemd's directories, `main` names two sockets of which one is enabled, and the file of `gone` is gone.
const BEFORE: &str = r#"
set -e
unit() { printf "$2" >"/etc/systemd/system/$1"; }
sleeps='[Service]\nExecStart=/bin/sleep infinity\n' boots='[Install]\nWantedBy=multi-user.target\n'
unit db.service "$sleeps"
unit app.service "[Unit]\nRequires=db.service\n$sleeps"
unit web.service "[Unit]\nPartOf=app.service\n$sleeps"
unit older.service "$sleeps"
unit newer.service "[Unit]\nConflicts=older.service\n$sleeps"
unit main.service "$sleeps${boots}Also=one.socket two.socket\n"
for name in one two; do
  unit "$name.socket" "[Socket]\nListenStream=/run/$name\nService=idle.service\n[Install]\nWantedBy=sockets.target\n"
done
unit idle.service "$sleeps"
unit gone.service "$sleeps$boots"
mkdir -p /srv/units
printf "$sleeps$boots" >/srv/units/elsewhere.service
systemctl -q link /srv/units/elsewhere.service
systemctl daemon-reload
systemctl -q enable gone.service one.socket
rm /etc/systemd/system/gone.service
systemctl daemon-reload
systemctl start db app web older one.socket
export DEBIAN_FRONTEND=noninteractive
apt-get install -qqy forge-demo >/dev/null </dev/null
apt-get remove -qqy forge-demo >/dev/null </dev/null
echo kept >>/etc/forge-demo.conf
"#;

const UNITS: &str = "db app web older newer main elsewhere one.socket two.socket";

/// What the host says about everything that the run changes.
fn state(node: &Node) -> String {
    node.must(&format!(
        "for unit in {UNITS}; do echo $unit $(systemctl is-active $unit) $(systemctl is-enabled $unit 2>&1); done
         readlink /etc/systemd/system/elsewhere.service; cat /etc/forge-demo.conf
         dpkg-query -W -f '${{db:Status-Status}}\\n' forge-demo"
    ))
}

#[test]
fn units_that_change_with_others_are_planned_and_undone() {
    for distribution in [Distribution::Debian11, Distribution::Debian12, Distribution::Debian13] {
        let Some(nodes) = Fleet::take_on(distribution, 1) else { return };
        let node = &nodes[0];
        node.must(BEFORE);
        let project = Project::new(&nodes).recipe("units", RECIPE).inventory("apply: [{ recipe: units, on: all }]\n");
        let (before, dangling) = (state(node), "/etc/systemd/system/multi-user.target.wants/gone.service");

        let plan = project.forge(["plan", "inventory.yaml"]);
        for line in [
            "~ state of app.service: active → stopped",
            "~ state of web.service: active → stopped",
            "~ state of older.service: active → stopped",
            "~ enabled of two.socket: disabled → enabled",
        ] {
            assert!(plan.stdout.contains(line), "{line}: {plan}");
        }
        assert!(!plan.stdout.contains("one.socket"), "it is enabled before: {plan}");

        let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(applied.code, 0, "{applied}");
        let active = format!("systemctl is-active {UNITS} || :");
        let expected = "inactive inactive inactive inactive active active active active inactive";
        assert_eq!(node.must(&active).replace('\n', " "), expected, "{applied}");
        assert_eq!(node.must("systemctl is-enabled two.socket"), "enabled");
        assert_eq!(node.must(&format!("test -L {dangling} && echo there || echo gone")), "gone");
        let again = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        assert_eq!(again.code, 0, "{again}");

        let undone = project.forge(["undo", "last", "-i", "inventory.yaml", "--yes"]);
        assert_eq!(undone.code, 0, "{undone}");
        assert_eq!(state(node), before, "{undone}");
        let left = "the links that enabled `gone.service`, whose file does not exist";
        assert!(undone.stderr.contains(left), "{undone}");

        let project = project.recipe("swap", SWAP).inventory("apply: [{ recipe: swap, on: all }]\n");
        let swapped = project.forge(["apply", "inventory.yaml", "--yes"]);
        assert_eq!(swapped.code, 0, "{swapped}");
        assert!(!swapped.stdout.contains("state of older.service"), "its own step stops it: {swapped}");
        assert_eq!(node.sh("systemctl is-active older newer").stdout, "inactive\nactive\n");
        let undone = project.forge(["undo", "last", "-i", "inventory.yaml", "--yes"]);
        assert_eq!((undone.code, state(node)), (0, before), "{undone}");
    }
}

const REFUSED: &str = r#"
recipe: refused
summary: A unit that fails, one that cannot be stopped, and one that stops another
steps:
  - name: crash
    unit: { name: crash.service, content: "[Service]\nExecStart=/bin/false\n" }
  - name: template
    unit:
      name: "w@.service"
      content: "[Unit]\nRefuseManualStop=yes\n[Service]\nExecStart=/bin/sleep infinity\n"
  - name: instance
    service: { name: "w@1" }
  - name: main
    service: { name: propagates, state: stopped }
"#;

/// `crash` fails after the run, and systemd would list it as `not-found failed` after its file is removed.
#[test]
fn files_of_units_go_with_their_units() {
    let Some(nodes) = Fleet::take_on(Distribution::Debian12, 1) else { return };
    let node = &nodes[0];
    node.must(
        r#"unit() { printf "$2" >"/etc/systemd/system/$1"; }
        sleeps='[Service]\nExecStart=/bin/sleep infinity\n'
        unit propagates.service "[Unit]\nPropagatesStopTo=other.service\n$sleeps"
        unit other.service "$sleeps"
        systemctl daemon-reload
        systemctl start propagates other"#,
    );
    let project = Project::new(&nodes).recipe("refused", REFUSED).inventory("apply: [{ recipe: refused, on: all }]\n");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(applied.stdout.contains("~ state of other.service: active → stopped"), "{applied}");
    node.must("! systemctl start crash 2>/dev/null; sleep 1; systemctl is-failed crash");

    let undone = project.forge(["undo", "last", "-i", "inventory.yaml", "--yes"]);
    assert_eq!(undone.code, 3, "`systemctl stop w@1` is refused: {undone}");
    assert_eq!(node.must("systemctl is-active propagates other w@1"), "active\nactive\nactive");
    assert_eq!(
        node.must("ls -d /etc/systemd/system/crash.service /etc/systemd/system/w@.service 2>/dev/null || :"),
        "/etc/systemd/system/w@.service",
        "{undone}"
    );
    let listed = "systemctl list-units --all --plain --no-legend crash.service";
    assert_eq!(node.must(listed), "", "{undone}");
}
