package virtualmachine_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// readWhereDeclared are attributes that an import reads and a creation, which didn't declare them, doesn't, and others.
func readWhereDeclared(others ...string) []string {
	all := append([]string{"devices", "platform", "cpu.dies", "memory.balloon"}, others...)
	for _, disk := range []string{"root", "base", "logs", "data", "iso", "whole"} {
		all = append(all, "disks."+disk+".discard", "disks."+disk+".error_policy", "disks."+disk+".io")
	}
	return all
}

// tale is a story of one VM whose configuration changes from step to step.
type tale struct {
	t       *testing.T
	l       *lab.Lab
	name    string
	config  hcl
	process *started
	steps   []resource.TestStep
}

func newTale(t *testing.T) *tale {
	t.Helper()
	l := lab.Open(t)
	name := lab.Name(t)
	return &tale{t: t, l: l, name: name, process: &started{l: l, host: "kvm1", name: name}, config: hcl{
		"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`, "host": quote("kvm1"),
		"termination_grace_period": quote("0s"), // It has nothing to boot that could shut down.
	}}
}

// apply applies a change to the VM, which runs on, and looks for what both definitions have to say then.
func (s *tale) apply(
	change hcl, action plancheck.ResourceActionType, has, hasNot []string, know ...statecheck.StateCheck,
) {
	s.t.Helper()
	s.config = s.config.with(change)
	s.steps = append(s.steps, resource.TestStep{
		Config: acctest.OneHost(s.l) + s.config.String(), ConfigPlanChecks: changes(action), ConfigStateChecks: know,
		Check: resource.ComposeAggregateTestCheckFunc(s.process.same(s.t), look(s.t, s.l, "kvm1", s.name, has...),
			lacks(s.t, s.l, "kvm1", s.name, hasNot...)),
	})
}

// refuse plans a change and expects it to be refused.
func (s *tale) refuse(change hcl, words ...string) {
	s.t.Helper()
	s.steps = append(s.steps, resource.TestStep{
		Config: s.config.withHosts(s.l, change), PlanOnly: true, ExpectError: inOrder(words...),
	})
}

// drift has something done to the VM by hand, which the next apply puts right.
func (s *tale) drift(has []string, virsh ...string) {
	s.t.Helper()
	s.apply(nil, plancheck.ResourceActionUpdate, has, nil)
	s.steps[len(s.steps)-1].PreConfig = func() { s.l.Virsh(s.t, "kvm1", virsh...) }
}

// imported imports the VM into a second state and expects that what is declared is read alike. others are attributes
// that are written in another way, or not declared.
func (s *tale) imported(others ...string) {
	s.t.Helper()
	others = append(others, "run_strategy", "timeouts", "status_reason", "host", "termination_grace_period")
	s.steps = append(s.steps, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: s.name,
		ImportStateVerifyIgnore: readWhereDeclared(others...),
	})
}

func (s *tale) runSteps() {
	s.t.Helper()
	story(s.t, s.l, []string{s.name}, s.steps...)
}

// TestAccAttributes_disks: how disks are tuned is created, changed while the VM runs as far as that can be, imported,
// seen when it drifts, and removed.
func TestAccAttributes_disks(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	root := s.l.Image(t, "kvm1", s.name+".qcow2", "qcow2", 8<<20)
	data := s.l.Image(t, "kvm1", s.name+".raw", "raw", 8<<20)
	disks := func(tune, more string) hcl {
		return hcl{"disks": fmt.Sprintf(`{
    root = { file = %q, io = "threads", detect_zeroes = "unmap", rerror_policy = "report", iothread = 2,
      queues = 2, logical_block_size = 512, physical_block_size = 4096, io_tune = %s }
    data = { file = %q, bus = "scsi", error_policy = "report", shareable = true, wwn = "5000C50015EA71AD",
      vendor = "ACME", product = "Disk 1", rotation_rate = 1%s }
  }`, root, tune, data, more)}
	}
	s.apply(disks(`{ total_iops_sec = 1000, total_iops_sec_max = 2000, total_iops_sec_max_length = 3 }`, "").with(hcl{
		"platform": "{ iothreads = 2 }",
	}), plancheck.ResourceActionCreate, []string{
		"<iothreads>2<", "io='threads'", "discard='unmap'", "detect_zeroes='unmap'", "rerror_policy='report'",
		"iothread='2'", "queues='2'", "logical_block_size='512'", "physical_block_size='4096'", "<wwn>5000c50015ea71ad<",
		"<vendor>ACME<", "<product>Disk 1<", "rotation_rate='1'", "<shareable/>", "error_policy='report'",
		"<total_iops_sec>1000<", "<total_iops_sec_max>2000<", "<total_iops_sec_max_length>3<",
	}, nil, know("disks.root.discard", knownvalue.Null()), know("disks.root.io_tune.read_iops_sec", knownvalue.Null()),
		know("disks.data.io_tune", knownvalue.Null()), know("disks.data.wwn", exactly("5000C50015EA71AD")))
	s.apply(disks(`{ total_iops_sec = 0, total_iops_sec_max = 0, total_iops_sec_max_length = 0, read_bytes_sec = 1048576,
        write_iops_sec = 50, group_name = "slow" }`, "").with(hcl{"platform": "{ iothreads = 4 }"}),
		plancheck.ResourceActionUpdate,
		[]string{"<read_bytes_sec>1048576<", "<write_iops_sec>50<", "<group_name>slow<", "<iothreads>4<"},
		[]string{"<total_iops_sec"})
	s.imported("disks.data.wwn")
	s.refuse(disks(`{}`, `, io = "native"`), "Change needs a restart", "disks.data.io: The disk is opened with it")
	s.refuse(hcl{"platform": "{ iothreads = 1 }"}, "Change needs a restart",
		"platform.iothreads: A device uses the I/O thread")
	s.refuse(disks(`{ total_iops_sec = 5, read_iops_sec = 5 }`, ""), "disks.root.io_tune.total_iops_sec",
		"A total can't be set together")
	s.refuse(disks(`{}`, `, io = "io_uring"`).with(hcl{"platform": "{ iothreads = 700 }"}), "platform.iothreads",
		"isn't a number from 1 to 512")
	s.drift([]string{"<read_bytes_sec>1048576<"}, "blkdeviotune", s.name, "vda", "--read-bytes-sec", "99999999", "--live",
		"--config")
	s.apply(disks(`{ read_bytes_sec = 0, write_iops_sec = 0 }`, "").with(hcl{"platform": "{ iothreads = 2 }"}),
		plancheck.ResourceActionUpdate, []string{"<iothreads>2<"}, []string{"<read_bytes_sec>", "<write_iops_sec>"})
	// What isn't declared any more is left alone.
	s.apply(hcl{"disks": fmt.Sprintf(`{ root = { file = %q }, data = { file = %q } }`, root, data)},
		plancheck.ResourceActionNoop, []string{"<vendor>ACME<", "iothread='2'", "<shareable/>"}, nil)
	s.runSteps()
}
