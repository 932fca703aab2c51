//! `packages`: the package manager and the installed packages.

use super::comparison_rules::{compare_entries, compare_value};
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};

pub(super) const FACT: Fact = Fact {
    name: "packages",
    doc: "The package manager and every installed package, from `dpkg-query` or `rpm`.",
    shape: FactShape::Map,
    fields: &[
        ("manager", "`apt` or `dnf`"),
        (
            "installed",
            "map from name to version. A package of a foreign architecture has the name `name:arch`; of several versions \
             of one RPM, the last installed one",
        ),
    ],
    reads: &["dpkg-query -W", "rpm -qa"],
    alike: &[compare_value("manager"), compare_entries("installed")],
    snippet: FactSnippet {
        name: "packages",
        snippet: "if command -v apt-get >/dev/null 2>&1; then\n\
                  need dpkg-query; printf 'apt\\n'\n\
                  dpkg-query -W -f='${db:Status-Status}\\t${Package}\\t${Architecture}\\t${Version}\\n'\n\
                  elif command -v dnf >/dev/null 2>&1; then\n\
                  need rpm; printf 'dnf\\n'\n\
                  l=$(rpm -qa --qf '%{INSTALLTIME}\\tinstalled\\t%{NAME}\\t%{ARCH}\\t%{EVR}\\n') || exit\n\
                  printf '%s\\n' \"$l\" | sort -rn | cut -f2-\n\
                  else printf 'neither apt-get nor dnf is there\\n' >&2; exit 1; fi",
        timeout_s: 30,
        device: false,
        quick: false,
        builtin: false,
    },
    parse,
};

struct PackageRow<'a> {
    name: &'a str,
    arch: &'a str,
    version: &'a str,
}

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let (manager, lines) =
        require_success(output)?.split_once('\n').ok_or_else(|| unparsed_answer("the manager", output))?;
    if !matches!(manager, "apt" | "dnf") {
        return Err(unparsed_answer("the manager", output));
    }
    let rows: Vec<PackageRow<'_>> = lines.lines().filter_map(parse_row).collect();
    // The package manager's own package has the native architecture.
    let native = rows.iter().find(|row| matches!(row.name, "dpkg" | "rpm")).map_or("", |row| row.arch);
    let mut installed = Map::new();
    for row in &rows {
        let foreign = !["all", "noarch", "(none)", native].contains(&row.arch);
        let name = if foreign { format!("{}:{}", row.name, row.arch) } else { row.name.to_owned() };
        installed.entry(name).or_insert_with(|| Value::from(row.version));
    }
    Ok(json!({ "manager": manager, "installed": installed }))
}

fn parse_row(line: &str) -> Option<PackageRow<'_>> {
    let mut words = line.strip_prefix("installed\t")?.split('\t');
    Some(PackageRow { name: words.next()?, arch: words.next()?, version: words.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn only_installed_packages_are_listed() {
        // origin: field, Debian 12, shortened; the i386 line is reconstructed
        let text = "apt\ninstalled\tdpkg\tamd64\t1.21.23\nhalf-configured\tforge-broken\tall\t1.0\nconfig-files\told\tall\t2\n\
                    installed\tlibc6\tamd64\t2.36-9+deb12u14\ninstalled\tlibc6\ti386\t2.36-9+deb12u13\ninstalled\ttzdata\tall\t2026b-0+deb12u1\n";
        let installed = json!({"dpkg": "1.21.23", "libc6": "2.36-9+deb12u14", "libc6:i386": "2.36-9+deb12u13", "tzdata": "2026b-0+deb12u1"});
        assert_eq!(parse_stdout(&FACT, text), Ok(json!({"manager": "apt", "installed": installed})));
    }

    #[test]
    fn most_recently_installed_kernel_is_reported() {
        // origin: reconstructed after RHEL 9
        let text = "dnf\ninstalled\tkernel\tx86_64\t5.14.0-503.el9\ninstalled\tkernel\tx86_64\t5.14.0-427.el9\ninstalled\trpm\tx86_64\t4.16.1.3-34.el9\n";
        let installed = json!({"kernel": "5.14.0-503.el9", "rpm": "4.16.1.3-34.el9"});
        assert_eq!(parse_stdout(&FACT, text), Ok(json!({"manager": "dnf", "installed": installed})));
    }

    #[test]
    fn unexpected_output_makes_fact_unknown() {
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
        assert_eq!(expect_unknown(&FACT, 0, "pacman\n"), "the manager is not in the answer");
    }
}
