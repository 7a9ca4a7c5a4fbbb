package migration

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// defineForTarget determines the definitions that the target gets, if they can't be those of the source: a definition
// may list the backing images of a disk, as after an external snapshot. libvirt would open them on the target, also for
// a disk whose copy is one image. It must be called right before the migration, because nothing that is written to the
// source's definitions afterwards reaches the target.
func (r *run) defineForTarget(ctx context.Context) error {
	var whole []string
	for _, c := range r.copies {
		if c.Disk.Target != "" && r.Options.Base(c.Disk).Path == "" {
			whole = append(whole, c.Disk.Target)
		}
	}
	r.targetXML, r.persistentXML = "", ""
	if len(whole) == 0 || r.resuming {
		return nil
	}
	live, err := r.Source.MigratableXML(ctx, r.VM.UUID)
	if err != nil {
		return err
	}
	if r.targetXML, err = withoutBacking(live, whole); err != nil || r.VM.Transient {
		return err
	}
	persistent, err := r.Source.CompleteXML(ctx, r.VM.UUID)
	if err != nil {
		return err
	}
	r.persistentXML, err = withoutBacking(persistent, whole)
	return err
}

// withoutBacking returns a definition whose disks with those targets list no backing images; "" if they list none.
func withoutBacking(xml string, targets []string) (string, error) {
	definition, err := domain.Parse(xml)
	if err != nil || !definition.RemoveBacking(targets) {
		return "", err
	}
	return definition.XML()
}
