//! Mails that are not sent but written to a folder, one file each.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Mail to an address here comes back.
const BOUNCING_DOMAIN: &str = "bounce.example";

/// A folder of mails.
pub struct Outbox {
    folder: PathBuf,
    next: AtomicU32,
}

impl Outbox {
    /// Makes the folder if it is not there.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn open(folder: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            next: AtomicU32::new(1),
        })
    }

    /// Writes one mail and returns the name of its file.
    ///
    /// # Errors
    /// Why it was not sent.
    pub fn send(&self, to: &str, subject: &str, body: &str) -> Result<String, String> {
        let domain = match to.split_once('@') {
            Some((name, domain)) if is_address_part(name) && is_address_part(domain) => domain,
            _ => return Err(format!("not a mail address: {to:?}")),
        };
        if subject.contains(['\r', '\n']) {
            return Err("the subject must be one line".to_owned());
        }
        if domain == BOUNCING_DOMAIN {
            return Err(format!("mailbox unavailable: {to}"));
        }
        let mail = format!(
            "From: News Agent <news@callgate.example>\nTo: {to}\nSubject: {subject}\n\
             MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n{body}\n"
        );
        self.write(to, &mail)
            .map_err(|error| format!("the mail was not written: {error}"))
    }

    /// Writes to a new file; the mails of an earlier run stay.
    fn write(&self, to: &str, mail: &str) -> std::io::Result<String> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{number:03}-{to}.eml");
            match File::create_new(self.folder.join(&name)) {
                Ok(mut file) => {
                    file.write_all(mail.as_bytes())?;
                    return Ok(name);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Strict enough for the address to be part of a file's name.
fn is_address_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    !part.is_empty() && part.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_of_an_earlier_run_stay() {
        let folder = tempfile::tempdir().unwrap();
        for subject in ["first", "second"] {
            let outbox = Outbox::open(folder.path()).unwrap();
            outbox.send("ada@example.org", subject, "Hello").unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_outbox_refuses_what_is_not_a_mail() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(folder.path()).unwrap();
        for address in [
            "",
            "ada",
            "@",
            "a@b@c",
            "../up@example.org",
            "a@b/c",
            "a b@c",
            "a@b\nBcc: d@e",
        ] {
            let error = outbox.send(address, "subject", "body").unwrap_err();
            assert!(
                error.starts_with("not a mail address"),
                "{address:?}: {error}"
            );
        }
        assert!(outbox.send("a@b", "one\nBcc: c@d", "body").is_err());
        assert!(
            outbox
                .send("a@bounce.example", "subject", "body")
                .unwrap_err()
                .starts_with("mailbox unavailable")
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
