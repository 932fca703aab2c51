//! Arguments of a kernel command line, parsed as the kernel parses them, and the declared arguments.

use crate::diag::Diag;
use crate::resource::shared::support::bad_value;
use serde::Serialize;

/// One argument: a flag, or a name with a value. Two arguments are equal if the kernel treats them as the same.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KernelArgument {
    /// With underscores: the kernel treats `-` and `_` in names as the same.
    pub name: String,
    pub value: Option<String>,
    /// Original text, without quotes.
    pub text: String,
}

impl PartialEq for KernelArgument {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.value) == (&other.name, &other.value)
    }
}

impl KernelArgument {
    pub fn parse(text: &str) -> Self {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        Self { name: name.replace('-', "_"), value, text: text.to_owned() }
    }
}

/// Joins arguments into one line.
pub(super) fn join_arguments(words: &[KernelArgument]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Splits a command line. Blanks between double quotes do not separate arguments, and the kernel ignores everything
/// after `--`. Arguments that the boot loader fills in (`$tuned_params`) are omitted.
pub(super) fn split_cmdline(line: &str) -> Vec<KernelArgument> {
    let (mut out, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            _ if c.is_ascii_whitespace() && !quoted => match std::mem::take(&mut word) {
                done if done == "--" => return out,
                done if done.is_empty() || done.starts_with('$') => {}
                done => out.push(KernelArgument::parse(&done)),
            },
            // GRUB's scripts write a quote as `\"`.
            '\\' => {}
            _ => word.push(c),
        }
    }
    out
}

/// Declared arguments of a command line.
#[derive(Debug, Default)]
pub(super) struct DeclaredArguments {
    /// Original texts.
    pub args: Vec<String>,
    /// Original texts: a name, or a name with a value.
    pub absent: Vec<String>,
}

/// One difference between a command line and its declaration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ArgumentMismatch {
    /// The values of that name that were found.
    pub have: Vec<KernelArgument>,
    /// The declared values; empty for an absent argument.
    pub want: Vec<KernelArgument>,
}

impl ArgumentMismatch {
    pub fn describe(&self) -> String {
        match (self.have.is_empty(), self.want.is_empty()) {
            (true, _) => format!("`{}` is missing", join_arguments(&self.want)),
            (_, true) => format!("`{}` is present", join_arguments(&self.have)),
            _ => format!("`{}` instead of `{}`", join_arguments(&self.have), join_arguments(&self.want)),
        }
    }
}

impl DeclaredArguments {
    /// Checks the declared arguments.
    ///
    /// # Errors
    /// Fails for an argument that boot loader files cannot hold unchanged, or that contradicts another one.
    pub fn new(args: Vec<String>, absent: Vec<String>) -> Result<Self, Diag> {
        for (field, words) in [("args", &args), ("absent", &absent)] {
            words.iter().try_for_each(|word| check_argument(word)).map_err(|diag| diag.with_field(field))?;
        }
        let wanted = Self { args, absent };
        if let Some(both) = wanted.parse_present().iter().find(|word| wanted.is_absent(word)) {
            return Err(bad_value(format!("`{}` is in both `args` and `absent`", both.text)).with_field("absent"));
        }
        match wanted.args.is_empty() && wanted.absent.is_empty() {
            true => Err(bad_value("`args` or `absent` is required").with_field("args")),
            false => Ok(wanted),
        }
    }

    pub fn parse_present(&self) -> Vec<KernelArgument> {
        self.args.iter().map(|text| KernelArgument::parse(text)).collect()
    }

    /// Reports whether an argument is declared absent.
    pub fn is_absent(&self, word: &KernelArgument) -> bool {
        self.absent.iter().map(|text| KernelArgument::parse(text)).any(|gone| match gone.value {
            None => gone.name == word.name,
            Some(_) => gone == *word,
        })
    }

    /// Returns the unique names of `args`, in order.
    pub fn argument_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for word in self.parse_present() {
            if !names.contains(&word.name) {
                names.push(word.name);
            }
        }
        names
    }

    /// Compares a command line. The last occurrence of a name takes effect, so the declared arguments of a name must be
    /// the last ones of that name. Names whose order matters to the kernel are compared as one.
    pub fn find_mismatches(&self, line: &str) -> Vec<ArgumentMismatch> {
        let found = split_cmdline(line);
        let of = |words: &[KernelArgument], name: &str| -> Vec<KernelArgument> {
            words.iter().filter(|word| ordering_name(&word.name) == name).cloned().collect()
        };
        let present = self.parse_present();
        let mut lacks: Vec<ArgumentMismatch> = Vec::new();
        let names: Vec<String> = self.argument_names();
        let mut compared: Vec<&str> = Vec::new();
        for name in names.iter().map(|name| ordering_name(name)) {
            if compared.contains(&name) {
                continue;
            }
            compared.push(name);
            let (have, want) = (of(&found, name), of(&present, name));
            if !have.ends_with(&want) {
                lacks.push(ArgumentMismatch { have, want });
            }
        }
        let gone = found.iter().filter(|word| self.is_absent(word));
        lacks.extend(gone.map(|word| ArgumentMismatch { have: vec![word.clone()], want: Vec::new() }));
        lacks
    }
}

/// Returns the name under which the order of an argument is compared: `hugepages=` belongs to the `hugepagesz=` before
/// it (Documentation/admin-guide/mm/hugetlbpage.rst).
fn ordering_name(name: &str) -> &str {
    if name == "hugepages" { "hugepagesz" } else { name }
}

/// Checks that an argument has only characters that a shell's quotes, GRUB's script and grubby's arguments all pass on
/// unchanged.
fn check_argument(word: &str) -> Result<(), Diag> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)) {
        return Err(bad_value(format!("`{word}` is not a valid kernel argument"))
            .hint("write one argument per entry, such as `iommu=pt` or `nosmt`"));
    }
    match value.chars().find(|c| !c.is_ascii_alphanumeric() && !"_.,:=+/@%-".contains(*c)) {
        None => Ok(()),
        Some(blank) if blank.is_whitespace() => Err(bad_value(format!("the value of `{name}` contains a blank"))
            .hint("write one argument per entry, such as `iommu=pt` or `nosmt`")),
        Some(bad) => Err(bad_value(format!("the value of `{name}` contains `{}`", bad.escape_default()))
            .hint("boot loaders interpret this character: set this argument manually")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_texts(line: &str) -> Vec<String> {
        split_cmdline(line).into_iter().map(|word| word.text).collect()
    }

    fn make_arguments(args: &[&str], absent: &[&str]) -> DeclaredArguments {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        DeclaredArguments::new(own(args), own(absent)).unwrap()
    }

    fn describe_lacks(args: &[&str], absent: &[&str], line: &str) -> Vec<String> {
        make_arguments(args, absent).find_mismatches(line).iter().map(ArgumentMismatch::describe).collect()
    }

    #[test]
    fn command_line_is_split_as_the_kernel_splits_it() {
        assert_eq!(
            split_texts("BOOT_IMAGE=/vmlinuz ro  dyndbg=\"file a.c +p\" rd.md-x=1 -- iommu=pt"),
            ["BOOT_IMAGE=/vmlinuz", "ro", "dyndbg=file a.c +p", "rd.md-x=1"]
        );
        assert_eq!(split_texts("ro $tuned_params a=\\\"b c\\\""), ["ro", "a=b c"]);
        assert_eq!(split_texts(""), Vec::<String>::new());
    }

    #[test]
    fn huge_pages_are_compared_with_the_size_before_them() {
        let args = ["hugepagesz=1G", "hugepages=16", "hugepagesz=2M", "hugepages=512", "nosmt"];
        assert!(
            describe_lacks(&args, &[], "hugepages=4 hugepagesz=1G hugepages=16 nosmt hugepagesz=2M hugepages=512")
                .is_empty()
        );
        assert_eq!(
            describe_lacks(&args, &[], "hugepages=16 hugepages=512 hugepagesz=1G hugepagesz=2M nosmt"),
            [
                "`hugepages=16 hugepages=512 hugepagesz=1G hugepagesz=2M` instead of `hugepagesz=1G hugepages=16 hugepagesz=2M hugepages=512`"
            ]
        );
    }

    #[test]
    fn last_argument_with_a_name_wins() {
        assert!(describe_lacks(&["iommu=pt"], &[], "iommu=off iommu=pt").is_empty());
        assert_eq!(
            describe_lacks(&["iommu=pt"], &[], "iommu=pt iommu=off"),
            ["`iommu=pt iommu=off` instead of `iommu=pt`"]
        );
        assert_eq!(
            describe_lacks(&["iommu=pt", "nosmt"], &[], "iommu.passthrough=1"),
            ["`iommu=pt` is missing", "`nosmt` is missing"]
        );
        assert_eq!(describe_lacks(&["nosmt"], &[], "nosmt=force"), ["`nosmt=force` instead of `nosmt`"]);
    }

    #[test]
    fn repeated_arguments_must_keep_their_order() {
        let both = ["console=tty0", "console=ttyS0,115200"];
        assert!(describe_lacks(&both, &[], "console=hvc0 console=tty0 ro console=ttyS0,115200").is_empty());
        assert_eq!(
            describe_lacks(&both, &[], "console=ttyS0,115200 console=tty0"),
            ["`console=ttyS0,115200 console=tty0` instead of `console=tty0 console=ttyS0,115200`"]
        );
    }

    #[test]
    fn absent_arguments_match_by_name_or_full_text() {
        assert_eq!(describe_lacks(&[], &["quiet", "iommu=soft"], "quiet iommu=pt"), ["`quiet` is present"]);
        assert_eq!(describe_lacks(&[], &["nouveau.modeset"], "nouveau.modeset=1"), ["`nouveau.modeset=1` is present"]);
        assert_eq!(describe_lacks(&["iommu=pt"], &["iommu=soft"], "iommu=soft iommu=pt"), ["`iommu=soft` is present"]);
    }

    #[test]
    fn invalid_kernel_arguments_are_rejected() {
        let refused = |args: &[&str], absent: &[&str]| {
            let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
            DeclaredArguments::new(own(args), own(absent)).unwrap_err().message
        };
        assert_eq!(refused(&["iommu=pt nosmt"], &[]), "the value of `iommu` contains a blank");
        assert_eq!(refused(&["memmap=4G$12G"], &[]), "the value of `memmap` contains `$`");
        assert_eq!(refused(&["=1"], &[]), "`=1` is not a valid kernel argument");
        assert_eq!(refused(&["quiet"], &["quiet"]), "`quiet` is in both `args` and `absent`");
        assert_eq!(refused(&[], &[]), "`args` or `absent` is required");
    }
}
