package acctest

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"go.uber.org/goleak"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab" //nolint:depguard // Only tests import this package.
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

// terraformPath is the variable that tells the testing framework which Terraform to run. Without it, the framework
// would download one.
const terraformPath = "TF_ACC_TERRAFORM_PATH"

// checkTimeout bounds a check of a host after a test.
const checkTimeout = time.Minute

// Main runs the tests of a package, with the Terraform on the PATH unless told otherwise, and checks that nothing is
// left running. TestMain calls it.
func Main(m *testing.M) {
	// As in the provider's main: the SDK's records of every request cost time, whether they are read or not.
	if err := provider.QuietSDK(); err != nil {
		log.Fatal(err)
	}
	if os.Getenv(serveEnv) != "" {
		if err := serve(); err != nil {
			log.Fatal(err)
		}
		return
	}
	if os.Getenv(terraformPath) == "" {
		if path, err := exec.LookPath("terraform"); err == nil {
			if err := os.Setenv(terraformPath, path); err != nil {
				log.Fatal(err)
			}
		}
	}
	// A quarter of a Terraform command's time is garbage collection, and the command ends before that is worth it.
	if err := os.Setenv(gcEnv, "off"); err != nil {
		log.Fatal(err)
	}
	goleak.VerifyTestMain(m, LeaksOfOthers()...)
}

const gcEnv = "GOGC"

// providerGC is the garbage collection of providers that are processes, which is that of this one.
var providerGC = os.Getenv(gcEnv)

// LeaksOfOthers returns the goroutines that outlive a test and that we can't end.
func LeaksOfOthers() []goleak.Option {
	return []goleak.Option{
		// libvirt offers no way to end its event loop once it runs.
		goleak.IgnoreAnyFunction("github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop"),
		// The pipes that these goroutines read stay open after a plugin server has stopped: only the garbage collector
		// closes them.
		goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.copyChan"),
	}
}

// Action expects that the plan of a step does that to a resource.
func Action(address string, a plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, a)}}
}

// NeedsTerraform skips a test if there is no Terraform to run. With TF_ACC set, the test fails instead.
func NeedsTerraform(t testing.TB) {
	t.Helper()
	if os.Getenv(terraformPath) != "" {
		return
	}
	const why = "no terraform on the PATH and " + terraformPath + " is not set"
	if os.Getenv(resource.EnvTfAcc) != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Factories returns the provider in this process, for every Terraform command that a test runs. The connections of one
// command end when the next command begins, because Terraform doesn't say when it no longer needs a provider that runs
// in another process.
func Factories(t testing.TB) map[string]func() (tfprotov6.ProviderServer, error) {
	t.Helper()
	var mu sync.Mutex
	var current *provider.Provider
	closeCurrent := func() error {
		if current == nil {
			return nil
		}
		return current.Close()
	}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if err := closeCurrent(); err != nil {
			t.Errorf("closing the provider: %v", err)
		}
	})
	return map[string]func() (tfprotov6.ProviderServer, error){
		provider.TypeName: func() (tfprotov6.ProviderServer, error) {
			mu.Lock()
			defer mu.Unlock()
			if err := closeCurrent(); err != nil {
				return nil, err
			}
			current = provider.New("test")
			return current.Server(), nil
		},
	}
}

// CheckDestroyed returns a CheckDestroy that none of the named VMs is left on any host of the lab. Of the VMs that are
// in the state before the destroy, none is left under another name either, and none of the disks that were made with
// them.
func CheckDestroyed(l *lab.Lab, names ...string) resource.TestCheckFunc {
	return func(before *terraform.State) error {
		if len(names) == 0 {
			return errors.New("there is no VM to look for")
		}
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		defer cancel()
		uuids, files := destroyed(before)
		for _, h := range l.Hosts {
			out, err := h.Virsh(ctx, "list", "--all", "--uuid", "--name")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				uuid, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				if name = strings.TrimSpace(name); slices.Contains(names, name) || slices.Contains(uuids, uuid) {
					return fmt.Errorf("virtual machine %q (%s) is still on host %s", name, uuid, h.Name)
				}
			}
			if len(files) == 0 {
				continue
			}
			const look = `for file; do [ ! -e "$file" ] || echo "$file"; done`
			if left, err := h.Run(ctx, "sh", append([]string{"-c", look, "sh"}, files...)...); err != nil || left != "" {
				return errors.Join(err, fmt.Errorf("host %s still has %s", h.Name, left))
			}
		}
		return nil
	}
}

// destroyed returns the UUIDs of the VMs in a state, and the files of the disks that are deleted with them.
func destroyed(before *terraform.State) (uuids, files []string) {
	if before == nil {
		return nil, nil
	}
	for _, r := range before.RootModule().Resources {
		if r.Type != "virtfleet_virtual_machine" || r.Primary == nil {
			continue
		}
		uuids = append(uuids, r.Primary.ID)
		for name, file := range r.Primary.Attributes {
			disk, is := strings.CutSuffix(name, ".path")
			if is && strings.HasPrefix(disk, "disks.") && file != "" && r.Primary.Attributes[disk+".pool"] != "" &&
				r.Primary.Attributes[disk+".on_destroy"] != "keep" {
				files = append(files, file)
			}
		}
	}
	return uuids, files
}

// BetweenPlanAndApply is what someone does on the hosts once the plan is there.
type BetweenPlanAndApply func()

// CheckPlan does it.
func (do BetweenPlanAndApply) CheckPlan(context.Context, plancheck.CheckPlanRequest, *plancheck.CheckPlanResponse) {
	do()
}
