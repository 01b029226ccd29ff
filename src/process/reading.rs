//! Reads the environments of many processes, none of which can hold up the others.
//!
//! A process that keeps its memory map locked makes every reader of its environment wait, and the kernel lets no reader
//! give up. So threads of our own read, and one that gets stuck is left behind until the process lets go of it or ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread, vec};

use super::mark::Mark;
use super::stat::Stat;

/// Once each process has a reader, those that give no result for this long count as unclear.
const LIMIT: Duration = Duration::from_secs(1);
/// After this long without any result another thread goes on with the next process.
const STALL: Duration = Duration::from_millis(50);
/// Agents decide how many processes hold up their readers; more threads than this never wait for them.
const MOST_STUCK: usize = 1024;
/// What a thread that only reads needs at most.
const STACK: usize = 128 * 1024;

/// The processes that a thread is reading now.
static READING: Claims = Claims(Mutex::new(BTreeSet::new()));

/// The marks of these processes by pid. A process that lets no thread read it is unclear. Those for which no thread is
/// left are unread, which fails nothing here: the others can be ended all the same.
pub(super) fn marks(processes: Vec<Stat>, key: &str) -> io::Result<HashMap<u32, Mark>> {
    let key = key.to_owned();
    read_all(processes, &READING, LIMIT, move |pid| Mark::read(pid, &key))
}

fn read_all(
    processes: Vec<Stat>,
    claims: &'static Claims,
    limit: Duration,
    read: impl Fn(u32) -> io::Result<Mark> + Send + Sync + 'static,
) -> io::Result<HashMap<u32, Mark>> {
    let mut marks: HashMap<u32, Mark> = processes.iter().map(|stat| (stat.pid, Mark::Unclear)).collect();
    let mut n_left = processes.len();
    let queue = Arc::new(Queue { processes: Mutex::new(processes.into_iter()), claims, read });
    let (sender, results) = channel();
    queue.start_reader(&sender)?;
    let mut n_readers = 1;
    let mut last_result = Instant::now();
    while n_left > 0 {
        match results.recv_timeout(STALL) {
            Ok((pid, mark)) => {
                marks.insert(pid, mark?);
                n_left -= 1;
                last_result = Instant::now();
            }
            Err(_no_result) => {
                let n_started = queue.start_readers(n_readers, &sender);
                n_readers += n_started;
                if n_started == 0 && last_result.elapsed() >= limit {
                    break;
                }
            }
        }
    }
    // The machine has no thread left for these.
    marks.extend(queue.left().by_ref().map(|stat| (stat.pid, Mark::Unread)));
    Ok(marks)
}

type Results = Sender<(u32, io::Result<Mark>)>;

/// What is left to read, shared by the threads that read.
struct Queue<R> {
    processes: Mutex<vec::IntoIter<Stat>>,
    claims: &'static Claims,
    read: R,
}

impl<R: Fn(u32) -> io::Result<Mark> + Send + Sync + 'static> Queue<R> {
    fn start_reader(self: &Arc<Self>, results: &Results) -> io::Result<()> {
        let (queue, results) = (Arc::clone(self), results.clone());
        let thread = thread::Builder::new().name("process-reader".to_owned()).stack_size(STACK);
        thread.spawn(move || queue.run(&results))?;
        Ok(())
    }

    /// As many as there is work for; says how many. Where the machine has no thread left, those that read go on.
    fn start_readers(self: &Arc<Self>, most: usize, results: &Results) -> usize {
        let wanted = most.min(self.left().len());
        (0..wanted).take_while(|_| self.start_reader(results).is_ok()).count()
    }

    /// Ends early when no caller waits for results any more.
    fn run(&self, results: &Results) {
        while let Some(stat) = self.next() {
            if results.send((stat.pid, self.mark(&stat))).is_err() {
                return;
            }
        }
    }

    fn mark(&self, stat: &Stat) -> io::Result<Mark> {
        match self.claims.claim(stat) {
            Claimed::Granted(_claim) => (self.read)(stat.pid),
            Claimed::Stuck => Ok(Mark::Unclear),
            Claimed::Full => Ok(Mark::Unread),
        }
    }

    fn next(&self) -> Option<Stat> {
        self.left().next()
    }

    fn left(&self) -> MutexGuard<'_, vec::IntoIter<Stat>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The processes that a thread is reading, by pid and start time.
struct Claims(Mutex<BTreeSet<(u32, u64)>>);

impl Claims {
    fn claim(&'static self, stat: &Stat) -> Claimed {
        let process = (stat.pid, stat.start_time);
        let mut claimed = self.claimed();
        if claimed.contains(&process) {
            return Claimed::Stuck;
        }
        if claimed.len() >= MOST_STUCK {
            return Claimed::Full;
        }
        claimed.insert(process);
        Claimed::Granted(Claim { claims: self, process })
    }

    fn claimed(&self) -> MutexGuard<'_, BTreeSet<(u32, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a thread that wants to read a process.
enum Claimed {
    Granted(Claim),
    /// A thread is stuck reading it.
    Stuck,
    /// Too many threads are stuck.
    Full,
}

/// The right to read one process, which one thread has at a time.
struct Claim {
    claims: &'static Claims,
    process: (u32, u64),
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.claimed().remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(pids: std::ops::Range<u32>) -> Vec<Stat> {
        let stat = Stat { pid: 0, parent: 0, group: 0, session: 0, start_time: 1, is_running: true };
        pids.map(|pid| Stat { pid, ..stat }).collect()
    }

    fn claims() -> &'static Claims {
        Box::leak(Box::new(Claims(Mutex::default())))
    }

    /// Reads processes of which all below this pid never answer.
    fn read(
        n_stuck: u32,
        pids: std::ops::Range<u32>,
        claims: &'static Claims,
    ) -> io::Result<HashMap<u32, Mark>> {
        // A loaded machine holds up readers too, which is not what is tested.
        read_all(stats(pids), claims, 5 * LIMIT, move |pid| {
            if pid < n_stuck {
                loop {
                    thread::park();
                }
            }
            Ok(Mark::Absent)
        })
    }

    #[test]
    fn processes_that_hold_up_their_readers_hold_up_no_other_process() {
        let (n_stuck, claims) = (30, claims());
        for _ in 0..2 {
            let marks = read(n_stuck, 0..40, claims).unwrap();
            let unclear = marks.iter().filter(|(_, mark)| **mark == Mark::Unclear).map(|(pid, _)| *pid);
            assert_eq!(unclear.collect::<BTreeSet<u32>>(), (0..n_stuck).collect());
            assert_eq!(claims.claimed().len(), 30);
        }
    }

    fn count(marks: &HashMap<u32, Mark>, wanted: &Mark) -> usize {
        marks.values().filter(|mark| *mark == wanted).count()
    }

    #[test]
    fn a_hundred_stuck_processes_leave_all_others_read() {
        let claims = claims();
        let marks = read(100, 0..200, claims).unwrap();
        let counts = [Mark::Unclear, Mark::Unread, Mark::Absent].map(|mark| count(&marks, &mark));
        assert_eq!(counts, [100, 0, 100]);
    }

    #[test]
    fn too_many_stuck_processes_leave_the_rest_unread_and_fail_nothing() {
        let claims = claims();
        // Threads that are stuck elsewhere.
        claims.claimed().extend((0..MOST_STUCK).map(|pid| (pid as u32, 0)));
        let marks = read(0, 2_000..2_003, claims).unwrap();
        assert_eq!(count(&marks, &Mark::Unread), 3);
    }
}
