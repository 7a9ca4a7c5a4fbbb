package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	virtfleet "github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

const (
	// roleEnv says which role this program has when Terraform starts it as the provider.
	roleEnv = "VIRTFLEET_BENCH_ROLE"
	// reportEnv is the directory that a role leaves its report in, one file per process.
	reportEnv = "VIRTFLEET_BENCH_REPORT"
	// profileEnv is the directory for CPU profiles; empty: none are made.
	profileEnv = "VIRTFLEET_BENCH_PROFILE"

	// roleTime runs the released provider and reports the CPU time that it took.
	roleTime = "time"
	// roleCount is the provider, and reports what it asked of the hosts.
	roleCount = "count"
)

var roles = map[string]func() error{roleTime: timeProvider, roleCount: countProvider}

// report is what one provider process cost. A plan starts several: two for schemas and validation, one that works.
type report struct {
	// CPU is the provider's. Probe is that of the program that reports.
	CPU, Probe time.Duration
	Calls      map[string]map[string]int
	// took is how long the command took, and terraform the CPU time that Terraform took itself.
	took, terraform time.Duration
}

// timeProvider stands between Terraform and the released provider, which inherits everything.
func timeProvider() error {
	// The parent's death signal is bound to the thread that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signal.Ignore(syscall.SIGINT)
	cmd := exec.CommandContext(context.Background(), os.Getenv(providerEnv), os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	return errors.Join(err, report{CPU: cpuOf(cmd.ProcessState), Probe: ownCPU()}.write())
}

// cpuOf is the CPU time of a process that has ended, and of those that it started and waited for.
func cpuOf(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// countProvider is the provider's main.
func countProvider() (err error) {
	if dir := os.Getenv(profileEnv); dir != "" {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("provider-%d.pprof", os.Getpid())))
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, file.Close())
		}()
	}
	virtfleet.CollectLess() // As Serve does: otherwise the profile shows garbage collections that users don't pay for.
	if err := virtfleet.QuietSDK(); err != nil {
		return err
	}
	p := virtfleet.New("bench")
	err = tf6server.Serve(virtfleet.Address, p.Server)
	return errors.Join(err, report{Calls: p.Calls()}.write(), p.Close())
}

func (r report) write() error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(os.Getenv(reportEnv), fmt.Sprintf("%d.json", os.Getpid())), data, 0o600)
}

// readReports adds up the reports of all processes of one Terraform command.
func readReports(b *testing.B, dir string) (sum report) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		b.Fatal(err)
	}
	if len(files) == 0 {
		b.Fatal("no provider process left a report")
	}
	sum.Calls = map[string]map[string]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		var r report
		if err := json.Unmarshal(data, &r); err != nil {
			b.Fatal(err)
		}
		sum.CPU += r.CPU
		sum.Probe += r.Probe
		for host, procedures := range r.Calls {
			if sum.Calls[host] == nil {
				sum.Calls[host] = map[string]int{}
			}
			for procedure, n := range procedures {
				sum.Calls[host][procedure] += n
			}
		}
	}
	return sum
}

// total is the number of calls to all hosts.
func (r report) total() (n int) {
	for _, procedures := range r.Calls {
		for _, calls := range procedures {
			n += calls
		}
	}
	return n
}
