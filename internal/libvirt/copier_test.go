package libvirt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestCopier_isNoVM: a domain that copies is shown as a copy, and nowhere as a virtual machine. One that only has such
// a name is.
func TestCopier_isNoVM(t *testing.T) {
	t.Parallel()
	h, ctx := open(t, Config{URI: "test:///default"}), t.Context()
	copier := copierName("ceph", "root")
	named := copierName("ceph", "other")
	vm := uuid.NewString()
	for name, id := range map[string]string{copier: copierUUID(copier), named: vm} {
		if _, err := h.DefineDomain(ctx, fmt.Sprintf("<domain type='test'><name>%s</name><uuid>%s</uuid>"+
			"<title>%sceph/root</title><memory>8192</memory><os><type>hvm</type></os></domain>", name, id,
			copierTitle)); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	domains, copies, err := h.DomainsAndCopies(ctx)
	for _, d := range domains {
		seen[d.Name] = true
	}
	if err != nil || seen[copier] || !seen[named] {
		t.Errorf("the host shows %v, %v", seen, err)
	}
	if len(copies) != 1 || copies[0].Into != "ceph/root" || !strings.Contains(copies[0].XML, copier) {
		t.Errorf("the host shows the copies %v", copies)
	}
	for name, id := range map[string]string{copier: copierUUID(copier), named: vm} {
		_, byName := h.DomainByName(ctx, name)
		_, byID := h.Domain(ctx, id)
		if hidden := name == copier; errors.Is(byName, ErrNotFound) != hidden || errors.Is(byID, ErrNotFound) != hidden {
			t.Errorf("%s: %v, %v", name, byName, byID)
		}
	}
}
