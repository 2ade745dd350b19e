//! Makes the manual pages and shell completions that the release archives
//! hold, from the command lines themselves.
//!
//! `cargo run -p xtask -- DIR` fills `DIR/man` and `DIR/completions`. It is a
//! crate of its own so that no user compiles the generators.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, Parser};
use clap_complete::Shell;
use clap_mangen::Man;

/// Makes the manual pages and shell completions of every tool
#[derive(Debug, Parser)]
struct Args {
    /// Where to put them: into its folders man and completions
    dir: PathBuf,
}

fn main() -> ExitCode {
    let Args { dir } = Args::parse();
    match generate(&dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be told to when stderr is gone.
            let _ = writeln!(
                io::stderr(),
                "xtask: cannot fill {}: {error}",
                dir.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn generate(dir: &Path) -> io::Result<()> {
    let man = dir.join("man");
    let completions = dir.join("completions");
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    for mut command in zmq_perf::cli::commands()
        .into_iter()
        .chain(opcua_perf::cli::commands())
    {
        let name = command.get_name().to_owned();
        manual_page(
            command.clone(),
            &mut File::create(man.join(format!("{name}.1")))?,
        )?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            clap_complete::generate_to(shell, &mut command, &name, &completions)?;
        }
    }
    Ok(())
}

/// A page as clap makes it, but for the end of the help, whose parts become
/// sections: they are laid out already, and would flow together as text.
fn manual_page(command: Command, page: &mut impl Write) -> io::Result<()> {
    let parts = command
        .get_after_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    // A page is of no target: it says the version alone.
    let man = Man::new(command.long_version(None::<&'static str>));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    for line in parts.lines() {
        match line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            Some(heading) => write!(page, ".SH \"{}\"\n.nf\n", heading.to_uppercase())?,
            None => writeln!(page, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?,
        }
    }
    writeln!(page, ".fi")?;
    man.render_version_section(page)
}

/// A line as roff shows it: a backslash begins its commands, a dash is set as a
/// hyphen, and none of ours begins with a dot or a quote.
fn escaped(line: &str) -> String {
    line.replace('\\', r"\e").replace('-', r"\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_page_and_its_completions() {
        let dir = tempfile::tempdir().unwrap();
        generate(dir.path()).unwrap();
        let mut tools = 0;
        for command in zmq_perf::cli::commands()
            .iter()
            .chain(&opcua_perf::cli::commands())
        {
            tools += 1;
            let name = command.get_name();
            let page = fs::read_to_string(dir.path().join(format!("man/{name}.1"))).unwrap();
            let example = format!("  {} ", escaped(name));
            for part in [
                ".SH NAME",
                ".SH \"EXAMPLES\"",
                ".SH \"EXIT CODES\"",
                &example,
            ] {
                assert!(page.contains(part), "{part}: {page}");
            }
            for file in [
                format!("{name}.bash"),
                format!("_{name}"),
                format!("{name}.fish"),
                format!("_{name}.ps1"),
            ] {
                let script = fs::read_to_string(dir.path().join("completions").join(&file));
                assert!(script.unwrap().contains("busy-poll"), "{file}");
            }
        }
        assert_eq!(tools, 9);
    }
}
