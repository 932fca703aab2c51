//! Changes of files: by the commands that wrote them, and by the times of the file.

use super::*;

#[test]
fn file_change_is_attributed_to_sudo_command_naming_the_file() {
    let touched = LoggedHost::new().file("/etc/motd", 600, 600, 0, "root");
    let edited = touched.clone().sudo("alice", 500, 110, "/usr/bin/vim /etc/motd");
    assert_eq!(told(&edited.judge(motd(ChangeAspect::Content))), "named: alice (sudo) vim /etc/motd @10:00Z");
    // It was only read, or edited at another time.
    let looked =
        touched.clone().sudo("bob", 600, 1, "/usr/bin/cat /etc/motd").sudo("bob", 300, 1, "/usr/bin/tee /etc/motd");
    assert_eq!(
        told(&looked.judge(motd(ChangeAspect::Content))),
        "nobody: - (-) the commands in the journal that may have changed it ran at other times @10:00Z"
    );
    let near = touched.clone().sudo("bob", 500, 300, "/usr/bin/bash");
    assert_eq!(told(&near.judge(motd(ChangeAspect::Content))), "near: bob (sudo) bash @10:00Z");
    let both = edited.sudo("bob", 590, 20, "/usr/bin/vim /etc/motd");
    assert_eq!(told(&both.judge(motd(ChangeAspect::Content))), "near: bob (sudo) vim /etc/motd @10:00Z");
    let packaged = touched.clone().part("apt", HISTORY);
    assert_eq!(told(&packaged.judge(motd(ChangeAspect::Content))), "near: alice (apt) apt-get install nginx=2 @10:00Z");
    let owned = LoggedHost::new().file("/etc/motd", 600, 600, 1000, "alice");
    assert_eq!(told(&owned.judge(motd(ChangeAspect::Content))), "near: alice (owner) - @10:00Z");
    let untouched = LoggedHost::new().file("/etc/motd", -600, -600, 0, "root");
    assert_eq!(
        told(&untouched.judge(motd(ChangeAspect::Content))),
        "nobody: - (-) it was not modified since it was applied @-"
    );
}

/// Only a command that writes the path is evidence about the file; one that reads it is none.
#[test]
fn command_that_only_reads_the_file_accuses_no_user() {
    let touched = LoggedHost::new().file("/etc/papp.conf", 600, 600, 0, "root");
    let of = |command: &str, aspect: ChangeAspect| {
        let found = finding(path("/etc/papp.conf"), aspect, Some("x"));
        told(&touched.clone().sudo("alice", 600, 1, command).judge(found))
    };
    let silent = "nobody: - (-) the commands in the journal that refer to it only read it @10:00Z";
    for command in [
        "/usr/bin/cat /etc/papp.conf",
        "/usr/bin/cp /etc/papp.conf /tmp/b",
        "/usr/bin/cp -t /tmp /etc/papp.conf",
        "/usr/bin/tar czf /tmp/b.tgz /etc/papp.conf",
        "/usr/bin/sed -n p /etc/papp.conf",
        "/usr/bin/install -m 0600 /etc/papp.conf /tmp/z",
        "/usr/bin/ln -sf /etc/papp.conf /tmp/l",
        "/usr/bin/scp /etc/papp.conf /tmp/q",
        "/usr/bin/rsync -a /etc/papp.conf backup:/srv/",
        "/usr/bin/dd if=/etc/papp.conf of=/tmp/k",
        "/usr/bin/bash -c 'cat /etc/papp.conf'",
        "/usr/bin/bash -c 'cat /etc/papp.conf >/tmp/k; echo done'",
        "/usr/bin/sh -c 'wc -l </etc/papp.conf'",
        "/usr/sbin/sshd -t -f /etc/papp.conf",
        "/usr/sbin/visudo -cf /etc/papp.conf",
    ] {
        assert_eq!(of(command, ChangeAspect::Content), silent, "{command}");
    }
    // Programs that forge does not know, and known ones that change something else, are only at that time.
    for command in [
        "/usr/local/bin/rotate /etc/papp.conf",
        "/usr/bin/chmod 0600 /etc/papp.conf",
        "/usr/bin/rm /etc/papp.conf",
        "/usr/bin/touch /etc/papp.conf",
        "/usr/bin/tar czf /tmp/b.tgz --remove-files /etc/papp.conf",
        "/usr/bin/sed -n 'w /etc/papp.conf' /etc/motd",
        "/usr/bin/sh -c 'for f in /etc/papp.conf; do x $f; done'",
    ] {
        let found = of(command, ChangeAspect::Content);
        assert!(found.starts_with("near: alice (sudo) "), "{command}: {found}");
    }
}

#[test]
fn command_that_writes_the_file_is_named() {
    let touched = LoggedHost::new().file("/etc/papp.conf", 600, 600, 0, "root");
    let gone = LoggedHost::new().part("gone:/etc/papp.conf", &format!("{} {} 0 root", APPLIED + 600, APPLIED + 600));
    let of = |command: &str, aspect: ChangeAspect, seen: Option<&str>| {
        let host = if seen.is_some() { &touched } else { &gone };
        told(&host.clone().sudo("alice", 600, 1, command).judge(finding(path("/etc/papp.conf"), aspect, seen)))
    };
    for (aspect, seen, command) in [
        (ChangeAspect::Content, Some("x"), "/usr/bin/cp /tmp/b /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/cp -p /tmp/papp.conf /etc/"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/mv -t /etc /tmp/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/install -m 0644 /tmp/b /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/ln -sf /tmp/l /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/scp host:/tmp/q /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/rsync -a /tmp/q /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/dd if=/tmp/k of=/etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/sed -i s/a/b/ /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/sed -Ei.bak -e s/a/b/ /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/perl -pi -e s/a/b/ /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/tee -a /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/truncate -s 0 /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/nano +3 /etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/bash -c 'echo \"a b\" >>/etc/papp.conf'"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/sh -c 'cd /etc && printf a | tee papp.conf 2>&1'"),
        (ChangeAspect::Content, Some("x"), "/bin/sh -c echo 0 >/etc/papp.conf"),
        (ChangeAspect::Content, Some("x"), "/usr/bin/curl -fsSo /etc/papp.conf https://example.org/x"),
        (ChangeAspect::Other, Some("0600"), "/usr/bin/chmod 0600 /etc/papp.conf"),
        (ChangeAspect::Other, Some("0600"), "/usr/bin/chmod -R go-r /etc"),
        (ChangeAspect::Owner, Some("bob"), "/usr/bin/chown bob /etc/papp.conf"),
        (ChangeAspect::Owner, Some("bob"), "/usr/bin/install -o bob /tmp/b /etc/papp.conf"),
        (ChangeAspect::Existence, Some("x"), "/usr/bin/touch /etc/papp.conf"),
        (ChangeAspect::Existence, None, "/usr/bin/rm -f /etc/papp.conf"),
        (ChangeAspect::Existence, None, "/usr/bin/rm -rf /etc"),
        (ChangeAspect::Existence, None, "/usr/bin/mv /etc/papp.conf /tmp"),
    ] {
        let found = of(command, aspect, seen);
        assert!(found.starts_with("named: alice (sudo) "), "{command}: {found}");
    }
    // A command that creates the file does not explain that it is gone, and one that writes it not its mode.
    for (aspect, seen, command) in [
        (ChangeAspect::Existence, None, "/usr/bin/tee /etc/papp.conf"),
        (ChangeAspect::Other, Some("0600"), "/usr/bin/tee /etc/papp.conf"),
        (ChangeAspect::Owner, Some("bob"), "/usr/bin/chmod 0600 /etc/papp.conf"),
    ] {
        let found = of(command, aspect, seen);
        assert!(found.starts_with("near: alice (sudo) "), "{command}: {found}");
    }
}

#[test]
fn file_attribution_uses_mtime_for_content_and_ctime_for_mode() {
    let host = LoggedHost::new().file("/etc/motd", 600, 900, 0, "root");
    let host =
        host.sudo("alice", 600, 1, "/usr/bin/tee /etc/motd").sudo("bob", 900, 1, "/usr/bin/chmod 0600 /etc/motd");
    assert_eq!(told(&host.judge(motd(ChangeAspect::Content))), "named: alice (sudo) tee /etc/motd @10:00Z");
    assert_eq!(told(&host.judge(motd(ChangeAspect::Other))), "named: bob (sudo) chmod 0600 /etc/motd @15:00Z");
    // `cp -p` keeps the old mtime: only the ctime shows the change.
    let copied = LoggedHost::new().file("/etc/motd", -9999, 600, 0, "root").sudo(
        "alice",
        600,
        1,
        "/usr/bin/cp -p /tmp/x /etc/motd",
    );
    assert_eq!(told(&copied.judge(motd(ChangeAspect::Content))), "named: alice (sudo) cp -p /tmp/x /etc/motd @10:00Z");
    let gone = LoggedHost::new().part("gone:/etc/motd", &format!("{} {} 0 root", APPLIED + 600, APPLIED + 600));
    let gone = gone.sudo("alice", 600, 1, "/usr/bin/rm /etc/motd");
    assert_eq!(
        told(&gone.judge(finding(path("/etc/motd"), ChangeAspect::Existence, None))),
        "named: alice (sudo) rm /etc/motd @10:00Z"
    );
}
