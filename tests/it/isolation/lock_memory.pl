# Keeps the memory map of a process locked: every reader of its environment or command line waits for ever.
#
# The process reads a page of a FUSE file system that never answers through its own /proc/self/mem, which holds the map's
# lock for reading; another process waits to write to the map, so that no further reader gets in. Works in the current
# directory: waits for "go", leaves the file system's device number in "device" and at last "locked". With the argument
# "for-ever" the process keeps the file system's descriptor itself, so that not even a kill ends it.
use strict;
use warnings;
use POSIX ();

my $mmap = { x86_64 => 9, aarch64 => 222 }->{ (POSIX::uname())[4] } or die "unknown machine";
my $is_for_ever = @ARGV && $ARGV[0] eq 'for-ever';
pause() until -e 'go';
$^F = 255;
open my $fuse, '+<', '/dev/fuse' or die "/dev/fuse: $!";
note('page', '');
my $options = 'fd=' . fileno($fuse) . ',rootmode=100000,user_id=0,group_id=0';
system('mount', '-i', '-n', '-t', 'fuse', '-o', $options, 'fuse', 'page') == 0 or die "cannot mount";
my $reader = fork // die "fork: $!";
read_page() if !$reader;
serve();
my $writer = fork // die "fork: $!";
write_to_map() if !$writer;
pause() until state($writer) eq 'D';
note('locked', "$reader\n");
sleep 600;

sub read_page {
    close $fuse if !$is_for_ever;
    note('device', (stat 'page')[0] . "\n");
    open my $page, '<', 'page' or die "page: $!";
    my $address = syscall $mmap, 0, 4096, 1, 2, fileno($page), 0;
    open my $memory, '<', '/proc/self/mem' or die "memory: $!";
    sysseek $memory, $address, 0;
    sysread $memory, my $byte, 1;
    exit;
}

sub write_to_map {
    close $fuse;
    open my $references, '>', "/proc/$reader/clear_refs" or die "clear_refs: $!";
    syswrite $references, "1\n";
    exit;
}

# Answers INIT, GETATTR and OPEN, refuses what else has an answer (not FORGET), and returns at the first READ.
sub serve {
    my $attributes = pack 'Q6L10', 1, 4096, 8, 0, 0, 0, 0, 0, 0, 0100444, 1, 0, 0, 0, 4096, 0;
    while (sysread $fuse, my $request, 1 << 20) {
        my ($operation, $id) = unpack 'x4LQ', $request;
        if ($operation == 15) { return }
        elsif ($operation == 26) { answer($id, pack 'L4S2L2S2L8', 7, 31, 65536, 0, 0, 0, 4096, 1, (0) x 10) }
        elsif ($operation == 3) { answer($id, pack('QL2', 3600, 0, 0) . $attributes) }
        elsif ($operation == 14) { answer($id, pack 'QL2', 1, 0, 0) }
        elsif ($operation != 2 && $operation != 42) { answer($id, '', -POSIX::ENOSYS()) }
    }
}

sub answer {
    my ($id, $body, $error) = @_;
    syswrite $fuse, pack('LlQ', 16 + length $body, $error // 0, $id) . $body or die "answer: $!";
}

sub state {
    open my $stat, '<', "/proc/$_[0]/stat" or die "the writer ended";
    return <$stat> =~ /\) (\w)/ ? $1 : '';
}

sub note {
    my ($name, $text) = @_;
    open my $file, '>', "$name.new" or die "$name: $!";
    print $file $text;
    close $file;
    rename "$name.new", $name;
}

sub pause { select undef, undef, undef, 0.01 }
