package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// diskJobsLimit is how long QEMU is asked for the jobs on a VM's disks. A QEMU that hangs then doesn't hold up what is
// to be done with the VM.
const diskJobsLimit = 5 * time.Second

// DiskJob is a job on a disk of a running VM.
type DiskJob struct {
	libvirt.BlockJob

	// Host and VM are the names of the host and of the VM. Key is the disk's key, "" if it isn't known.
	Host, VM, Key string
}

// DiskJobs returns the jobs that run on the disks of a host's VM. It returns none if QEMU can't be asked: libvirt then
// refuses what a job prevents. keys are those of the disks, by target.
func DiskJobs(ctx context.Context, h *libvirt.Host, uuid, name string, keys map[string]string) (jobs []DiskJob) {
	ctx, cancel := context.WithTimeout(ctx, diskJobsLimit)
	defer cancel()
	found, err := h.BlockJobs(ctx, uuid)
	if err != nil {
		return nil
	}
	for _, job := range found {
		jobs = append(jobs, DiskJob{BlockJob: job, Host: h.Name(), VM: name, Key: keys[job.Target]})
	}
	return jobs
}

// What names the job in a sentence.
func (j DiskJob) What() string {
	switch j.Type {
	case libvirt.BlockBackup:
		return "backup"
	case libvirt.BlockCopy:
		return "block copy"
	case libvirt.BlockCommit, libvirt.BlockActiveCommit:
		return "block commit"
	case libvirt.BlockPull:
		return "block pull"
	default:
		return "block job"
	}
}

// Disk names the job's disk in a sentence.
func (j DiskJob) Disk() string {
	if j.Key == "" {
		return fmt.Sprintf("disk %q", j.Target)
	}
	return fmt.Sprintf("disk %q (%s)", j.Key, j.Target)
}

// Title says in few words that the job runs.
func (j DiskJob) Title() string { return "Job runs on the disk: " + j.VM }

// Prevents says that the job prevents what is to be done with the disk: "grown in", "removed from".
func (j DiskJob) Prevents(done string) string {
	return fmt.Sprintf("A %s runs on %s of VM %q on host %q. Until it has ended, the disk can't be %s the running VM",
		j.What(), j.Disk(), j.VM, j.Host, done)
}

// Remedy says how the job ends.
func (j DiskJob) Remedy() string {
	vm := domain.ShellWord(j.VM)
	end := fmt.Sprintf("virsh blockjob %s %s", vm, j.Target)
	switch j.Type {
	case libvirt.BlockBackup:
		return fmt.Sprintf("Wait until the backup has ended, or abort it on host %q: \"virsh domjobabort %s\".", j.Host, vm)
	case libvirt.BlockCopy, libvirt.BlockActiveCommit:
		return fmt.Sprintf("End the %s on host %q: \"%s --pivot\" has the VM use the image that is written, \"%s --abort\" "+
			"the one that it has.", j.What(), j.Host, end, end)
	default:
		return fmt.Sprintf("Wait until the %s has ended, or abort it on host %q: \"%s --abort\".", j.What(), j.Host, end)
	}
}

// JobError means that a volume can't grow because of a job on the disk of the VM that runs on it.
type JobError struct{ DiskJob }

// Error says which job it is.
func (e *JobError) Error() string { return e.Prevents("grown in") }

// jobOn returns a JobError if a job runs on the disk of a VM, nil otherwise.
func (s *Storage) jobOn(ctx context.Context, u User) error {
	h, err := s.host(u.Host)
	if err != nil || !u.Active {
		return err
	}
	for _, job := range DiskJobs(ctx, h, u.UUID, u.VM, nil) {
		if job.Target == u.Target {
			return &JobError{job}
		}
	}
	return nil
}

// CheckJobs returns a JobError if a job prevents a host's volume from growing now. It changes nothing. What it can't
// find out, Grow does.
func (s *Storage) CheckJobs(ctx context.Context, host string, ref Ref) error {
	hosts, err := s.UserHosts(ctx, host, ref.Pool)
	var users []User
	if found := hostset.Found(s.Volume(ctx, s.Hosts.Named(host), ref)); err == nil && len(found) > 0 {
		users, err = s.KnownUsers(ctx, hosts, *found[0].Value)
	}
	for _, u := range users {
		unclear := s.jobOn(ctx, u)
		if job, ok := errors.AsType[*JobError](unclear); ok {
			return job
		}
		err = cmp.Or(err, unclear)
	}
	s.Log.Debug("jobs on a volume that is to grow", "host", host, "volume", ref.String(), "error", err)
	return nil
}
