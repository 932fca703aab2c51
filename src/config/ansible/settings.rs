//! What Ansible's own variables mean in forge: settings of `connect`, addresses, or nothing that forge has.

use super::{Known, Var, template};
use crate::config::inventory::{is_address, is_identifier};
use crate::config::scalar;
use crate::model::Value;

/// Where a variable goes in forge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Slot {
    Var(String),
    /// A key of `connect`.
    Connect(&'static str),
    Address,
}

/// What one variable becomes.
pub(super) enum Meaning {
    /// A value for a slot; `None` hides what a lower layer says.
    Is(Slot, Option<Value>),
    /// The same, with why the value cannot be carried: a lowercase fragment that follows the variable's name.
    Lost(Slot, String),
    /// Forge needs nothing of the kind, or has no place for it.
    Nowhere(&'static str),
    /// It says what is so in forge anyway.
    Anyway,
}

const NO_PLACE: &str = "is not carried: forge has no place for it";
const KEYS_ONLY: &str = "is not carried: forge logs in with keys only";
const SUDO_PASSWORD: &str =
    "is not carried: forge takes the password of sudo as `connect: { sudo: { password: { env: NAME } } }`";

/// Returns what a variable means.
pub(super) fn meaning(name: &str, var: &Var) -> Meaning {
    match name {
        "ansible_host" | "ansible_ssh_host" => text(var, Slot::Address, is_address, "is not an address"),
        "ansible_user" | "ansible_ssh_user" => {
            text(var, Slot::Connect("user"), scalar::is_name, "is not the name of a user")
        }
        "ansible_port" | "ansible_ssh_port" => port(var),
        "ansible_ssh_private_key_file" | "ansible_private_key_file" => {
            text(var, Slot::Connect("identity"), is_path, "is not a path")
        }
        "ansible_connection" => connection(var),
        "ansible_become" => truth(var),
        "ansible_become_user" if is(var, "root") => Meaning::Anyway,
        "ansible_become_user" => Meaning::Nowhere("is not carried: forge becomes root and nobody else"),
        "ansible_become_method" if is(var, "sudo") || is(var, "ansible.builtin.sudo") => Meaning::Anyway,
        "ansible_become_method" => Meaning::Nowhere("is not carried: forge becomes root through sudo only"),
        "ansible_become_password" | "ansible_become_pass" | "ansible_sudo_pass" => Meaning::Nowhere(SUDO_PASSWORD),
        "ansible_password" | "ansible_ssh_pass" | "ansible_ssh_password" => Meaning::Nowhere(KEYS_ONLY),
        "ansible_python_interpreter" => Meaning::Nowhere("is not carried: forge needs no Python on a host"),
        "ansible_ssh_common_args" | "ansible_ssh_extra_args" => jump(var),
        _ if name.starts_with("ansible_") => Meaning::Nowhere(NO_PLACE),
        _ if !is_identifier(name) => {
            Meaning::Nowhere("is not carried: the names of variables are letters, digits and `_`")
        }
        _ => plain(name, var),
    }
}

fn plain(name: &str, var: &Var) -> Meaning {
    let slot = Slot::Var(name.to_owned());
    match &var.value {
        Known::Value(value) => Meaning::Is(slot, Some(value.clone())),
        Known::Template(_) => Meaning::Lost(slot, template::NOT_CARRIED.to_owned()),
        Known::Lost(why) => Meaning::Lost(slot, why.clone()),
    }
}

fn is(var: &Var, text: &str) -> bool {
    var.value == Known::Value(Value::from(text))
}

/// Numbers and names alike, as text.
fn words(var: &Var) -> Result<String, String> {
    match &var.value {
        Known::Value(Value::String(text)) => Ok(text.clone()),
        Known::Value(value @ Value::Number(_)) => Ok(value.to_string()),
        Known::Value(_) => Err("is no text".to_owned()),
        Known::Template(_) => Err(template::NOT_CARRIED.to_owned()),
        Known::Lost(why) => Err(why.clone()),
    }
}

fn text(var: &Var, slot: Slot, fits: fn(&str) -> bool, otherwise: &str) -> Meaning {
    match words(var) {
        Ok(text) if fits(&text) => Meaning::Is(slot, Some(Value::from(text))),
        Ok(text) => Meaning::Lost(slot, format!("is not carried: `{text}` {otherwise}")),
        Err(why) => Meaning::Lost(slot, why),
    }
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.chars().any(char::is_control)
}

fn port(var: &Var) -> Meaning {
    let slot = Slot::Connect("port");
    match words(var).map(|text| (text.trim().parse::<u16>(), text)) {
        Ok((Ok(number), _)) if number > 0 => Meaning::Is(slot, Some(Value::from(number))),
        Ok((_, text)) => Meaning::Lost(slot, format!("is not carried: `{text}` is not a port")),
        Err(why) => Meaning::Lost(slot, why),
    }
}

fn connection(var: &Var) -> Meaning {
    let slot = Slot::Connect("transport");
    match words(var) {
        Ok(text) => match text.strip_prefix("ansible.builtin.").unwrap_or(&text) {
            "ssh" | "smart" | "paramiko" | "paramiko_ssh" => Meaning::Is(slot, Some(Value::from("ssh"))),
            "local" => Meaning::Is(slot, Some(Value::from("local"))),
            other => Meaning::Lost(
                slot,
                format!(
                    "is not carried: forge has no connection `{other}`; a program that gives a shell is `connect: {{ command: […] }}`"
                ),
            ),
        },
        Err(why) => Meaning::Lost(slot, why),
    }
}

/// Truth as Ansible's options take it.
fn truth(var: &Var) -> Meaning {
    let slot = Slot::Connect("sudo");
    let truth = match &var.value {
        Known::Value(Value::Bool(truth)) => Ok(*truth),
        Known::Value(Value::Number(number)) => Ok(number.as_i64() == Some(1)),
        Known::Value(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "on" | "1" | "true" | "t" => Ok(true),
            "n" | "no" | "off" | "0" | "false" | "f" => Ok(false),
            _ => Err(format!("is not carried: `{text}` is neither true nor false")),
        },
        Known::Value(_) => Err("is not carried: it is neither true nor false".to_owned()),
        Known::Template(_) => Err(template::NOT_CARRIED.to_owned()),
        Known::Lost(why) => Err(why.clone()),
    };
    match truth {
        Ok(truth) => Meaning::Is(slot, Some(Value::Bool(truth))),
        Err(why) => Meaning::Lost(slot, why),
    }
}

/// Of arguments of ssh, a jump host is the one thing that forge has a setting for.
fn jump(var: &Var) -> Meaning {
    let slot = Slot::Connect("jump");
    let hops = match words(var) {
        Ok(text) => match shlex::split(&text).unwrap_or_default().as_slice() {
            [] => return Meaning::Anyway,
            [option, hops] if option == "-J" => Some(hops.clone()),
            [option, value] if option == "-o" => value.strip_prefix("ProxyJump=").map(str::to_owned),
            [option] => option.strip_prefix("-J").or_else(|| option.strip_prefix("-oProxyJump=")).map(str::to_owned),
            _ => None,
        },
        Err(why) => return Meaning::Lost(slot, why),
    };
    let usable = |hop: &str| match hop.split_once('@') {
        Some((user, host)) => scalar::is_name(user) && is_address(host),
        None => is_address(hop),
    };
    match hops.filter(|hops| hops.split(',').all(usable)) {
        Some(hops) => Meaning::Is(slot, Some(Value::from(hops))),
        None => Meaning::Nowhere(
            "is not carried: of arguments of ssh forge has a setting for jump hosts only; put the others into `~/.ssh/config`",
        ),
    }
}
