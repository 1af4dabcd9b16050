# Submits as many held jobs as its argument says, through Slurm's own library.
use strict;
use warnings;
use Slurm;

my $slurm = Slurm::new() or die "cannot load Slurm's configuration";
for my $number (1 .. $ARGV[0]) {
    my $made = $slurm->submit_batch_job({
        name => "job$number", script => "#!/bin/sh\ntrue\n", user_id => 0, group_id => 0, work_dir => "/tmp",
        environment => { PATH => "/bin" }, min_nodes => 1, num_tasks => 1, min_cpus => 1, priority => 0,
        std_out => "/dev/null",
    });
    die $slurm->strerror() unless $made;
}
