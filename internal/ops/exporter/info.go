package exporter

import (
	"regexp"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// none is KubeVirt's value for what it doesn't know.
const none = "<none>"

var (
	vmiInfo = gauge("kubevirt_vmi_info", "Information about virtual machines that run or failed. Value is 1.")
	vmInfo  = gauge("kubevirt_vm_info", "Information about all virtual machines. Value is 1.")

	nonEvictable = gauge("kubevirt_vmi_non_evictable", "Whether a drain of its host would stop at the virtual machine: 1 "+
		"where its eviction strategy leaves no way but to move it live and that can't be done, as far as its host alone can "+
		"tell, else 0.")
)

// addInfo adds the info metrics of a VM. guest may be nil.
func (f *families) addInfo(m observe.Sample, facts status.Facts, guest *libvirt.GuestInfo, l labels) {
	vm := m.VM
	spec := vm.LiveSpec
	if spec == nil {
		spec = vm.PersistentSpec
	}
	if spec == nil {
		spec = &domain.Spec{}
	}
	kind := l.with("os", none, "workload", none, "flavor", none, "instance_type", none, "preference", none)
	printed := strings.ToLower(status.PrintableStatus(facts))
	f.add(vmInfo, new(1.0), kind.with("machine_type", orNone(spec.Machine), "status", printed,
		"status_group", statusGroup(printed)))
	phase := strings.ToLower(status.InstancePhase(facts))
	if !vm.Active && phase != "failed" {
		return
	}
	os := &libvirt.GuestOS{}
	if guest != nil && guest.OS != nil && vm.Active {
		os = guest.OS
	}
	evictable, held := evictableValue(m, facts)
	f.add(vmiInfo, new(1.0), kind.with("phase", phase, "guest_os_kernel_release", orNone(os.KernelRelease),
		"guest_os_machine", orNone(spec.Machine), "guest_os_arch", orNone(spec.Arch), "guest_os_name", orNone(os.Name),
		"guest_os_version_id", orNone(os.VersionID), "evictable", evictable,
		"outdated", "false", "vmi_pod", none))
	f.add(nonEvictable, held, l)
}

// evictableValue returns whether a drain can evict a VM, as a label and as a value of nonEvictable. A VM that is being
// moved is evictable. A VM that runs twice, or whose post-copy failed, is not evicted by any drain.
func evictableValue(m observe.Sample, facts status.Facts) (label string, held *float64) {
	switch {
	case len(facts.RunsOn) > 1, facts.PostCopy() != status.PostCopyIntact:
		return "false", new(1.0)
	case m.VM.Active && facts.Migrating:
		return "true", new(0.0)
	case m.Evictable == nil:
		return none, nil
	case *m.Evictable:
		return "true", new(0.0)
	default:
		return "false", new(1.0)
	}
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// statusGroup returns KubeVirt's group of a printed status.
func statusGroup(status string) string {
	switch status {
	case groupStarting, groupRunning, groupMigrating:
		return status
	case "stopped", "stopping", "paused":
		return groupNonRunning
	default:
		return groupError
	}
}

// maxLabels limits how many labels of one VM become labels of its series.
const maxLabels = 32

var unfit = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// vmLabels returns the labels of every series of a VM.
func (s *scraper) vmLabels(vm *fleet.VM) labels {
	l := labels{}.with("node", vm.Host, "namespace", s.namespace, "name", vm.Name)
	var pairs []string
	taken := map[string]bool{}
	for _, key := range s.labels.chosenLabels(vm.Metadata.Labels) {
		// Two labels may get the same name; the first one is kept.
		name := "kubernetes_vmi_label_" + unfit.ReplaceAllString(key, "_")
		if taken[name] || len(taken) == maxLabels {
			continue
		}
		taken[name] = true
		pairs = append(pairs, name, vm.Metadata.Labels[key])
	}
	return l.with(pairs...)
}
