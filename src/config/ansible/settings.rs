//! Maps Ansible's own variables to forge: settings of `connect`, addresses, or no equivalent.

use super::inventory::{AnsibleValue, AnsibleVar};
use super::var_meaning::{SettingSlot, VarMeaning, is_path, to_scalar_text};
use super::{ssh_args, template};
use crate::config::identifier::is_identifier;
use crate::config::inventory::is_address;
use crate::config::scalar;
use crate::model::Value;

const NO_PLACE: &str = "is not converted: forge has no equivalent";
const KEYS_ONLY: &str = "is not converted: forge supports login with keys only";
const SUDO_PASSWORD: &str =
    "is not converted: set the sudo password as `connect: { sudo: { password: { env: NAME } } }`";

/// Returns the conversion of a variable.
pub(super) fn translate_var(name: &str, var: &AnsibleVar) -> VarMeaning {
    match name {
        "ansible_host" | "ansible_ssh_host" => {
            translate_text(var, SettingSlot::Address, is_address, "is not a valid address")
        }
        "ansible_user" | "ansible_ssh_user" => {
            translate_text(var, SettingSlot::Connect("user"), scalar::is_name, "is not a valid user name")
        }
        "ansible_port" | "ansible_ssh_port" => translate_port(var),
        "ansible_ssh_private_key_file" | "ansible_private_key_file" => {
            translate_text(var, SettingSlot::Connect("identity"), is_path, "is not a valid path")
        }
        "ansible_connection" => translate_connection(var),
        "ansible_become" => translate_become(var),
        "ansible_become_user" if has_text(var, "root") => VarMeaning::Anyway,
        "ansible_become_user" => VarMeaning::Nowhere("is not converted: forge can become root only"),
        "ansible_become_method" if has_text(var, "sudo") || has_text(var, "ansible.builtin.sudo") => VarMeaning::Anyway,
        "ansible_become_method" => VarMeaning::Nowhere("is not converted: forge becomes root with sudo only"),
        "ansible_become_password" | "ansible_become_pass" | "ansible_sudo_pass" => VarMeaning::Nowhere(SUDO_PASSWORD),
        "ansible_password" | "ansible_ssh_pass" | "ansible_ssh_password" => VarMeaning::Nowhere(KEYS_ONLY),
        "ansible_python_interpreter" => VarMeaning::Nowhere("is not converted: forge does not need Python on hosts"),
        "ansible_ssh_common_args" | "ansible_ssh_extra_args" => ssh_args::translate_ssh_args(var),
        _ if name.starts_with("ansible_") => VarMeaning::Nowhere(NO_PLACE),
        _ if !is_identifier(name) => {
            VarMeaning::Nowhere("is not converted: variable names may contain only letters, digits and `_`")
        }
        _ => translate_plain_var(name, var),
    }
}

fn translate_plain_var(name: &str, var: &AnsibleVar) -> VarMeaning {
    let slot = SettingSlot::Var(name.to_owned());
    match &var.value {
        AnsibleValue::Value(value) => VarMeaning::Is(slot, Some(value.clone())),
        AnsibleValue::Template(_) => VarMeaning::Lost(slot, template::NOT_CARRIED.to_owned()),
        AnsibleValue::Lost(why) => VarMeaning::Lost(slot, why.clone()),
    }
}

fn has_text(var: &AnsibleVar, text: &str) -> bool {
    var.value == AnsibleValue::Value(Value::from(text))
}

fn translate_text(var: &AnsibleVar, slot: SettingSlot, fits: fn(&str) -> bool, otherwise: &str) -> VarMeaning {
    match to_scalar_text(var) {
        Ok(text) if fits(&text) => VarMeaning::Is(slot, Some(Value::from(text))),
        Ok(text) => VarMeaning::Lost(slot, format!("is not converted: `{text}` {otherwise}")),
        Err(why) => VarMeaning::Lost(slot, why),
    }
}

fn translate_port(var: &AnsibleVar) -> VarMeaning {
    let slot = SettingSlot::Connect("port");
    match to_scalar_text(var).map(|text| (text.trim().parse::<u16>(), text)) {
        Ok((Ok(number), _)) if number > 0 => VarMeaning::Is(slot, Some(Value::from(number))),
        Ok((_, text)) => VarMeaning::Lost(slot, format!("is not converted: `{text}` is not a valid port")),
        Err(why) => VarMeaning::Lost(slot, why),
    }
}

fn translate_connection(var: &AnsibleVar) -> VarMeaning {
    let slot = SettingSlot::Connect("transport");
    match to_scalar_text(var) {
        Ok(text) => match text.strip_prefix("ansible.builtin.").unwrap_or(&text) {
            "ssh" | "smart" | "paramiko" | "paramiko_ssh" => VarMeaning::Is(slot, Some(Value::from("ssh"))),
            "local" => VarMeaning::Is(slot, Some(Value::from("local"))),
            other => VarMeaning::Lost(
                slot,
                format!(
                    "is not converted: forge does not support connection `{other}`; \
                     set `connect: {{ command: […] }}` to run a program that opens a shell"
                ),
            ),
        },
        Err(why) => VarMeaning::Lost(slot, why),
    }
}

/// Parses a boolean like Ansible's options do.
fn translate_become(var: &AnsibleVar) -> VarMeaning {
    let slot = SettingSlot::Connect("sudo");
    let truth = match &var.value {
        AnsibleValue::Value(Value::Bool(truth)) => Ok(*truth),
        AnsibleValue::Value(Value::Number(number)) => Ok(number.as_i64() == Some(1)),
        AnsibleValue::Value(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "on" | "1" | "true" | "t" => Ok(true),
            "n" | "no" | "off" | "0" | "false" | "f" => Ok(false),
            _ => Err(format!("is not converted: `{text}` is not a boolean")),
        },
        AnsibleValue::Value(_) => Err("is not converted: it is not a boolean".to_owned()),
        AnsibleValue::Template(_) => Err(template::NOT_CARRIED.to_owned()),
        AnsibleValue::Lost(why) => Err(why.clone()),
    };
    match truth {
        Ok(truth) => VarMeaning::Is(slot, Some(Value::Bool(truth))),
        Err(why) => VarMeaning::Lost(slot, why),
    }
}
