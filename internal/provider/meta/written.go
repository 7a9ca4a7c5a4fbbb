package meta

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// Written are the objects on hosts that resources have written since the provider was configured.
//
// If a resource has another name or key and no moved block, or has create_before_destroy, Terraform may create the new
// one before it destroys the former one. If both are the same object, such as the copy of an image, the new resource
// adopts it, and the destroy of the former one must not remove it. If Terraform destroys first, the object is created
// again.
type Written struct {
	mu      sync.Mutex
	objects map[string]*writtenObject
}

type writtenObject struct {
	// removal is locked by a removal, and locked for reading while a resource writes the object.
	removal sync.RWMutex
	// hosts are those on which it was written.
	hosts map[string]bool
}

// object returns the object with that id, which is unique among the resources of that type. w.mu is locked.
func (w *Written) object(typeName, id string) *writtenObject {
	if w.objects == nil {
		w.objects = map[string]*writtenObject{}
	}
	key := typeName + "/" + id
	if w.objects[key] == nil {
		w.objects[key] = &writtenObject{hosts: map[string]bool{}}
	}
	return w.objects[key]
}

// Writing must be called before a resource writes the object, and written afterwards, with the hosts that have it now.
// Several resources may write an object at the same time.
func (w *Written) Writing(typeName, id string) (written func(hosts []string)) {
	w.mu.Lock()
	o := w.object(typeName, id)
	w.mu.Unlock()
	o.removal.RLock()
	return func(hosts []string) {
		w.mu.Lock()
		for _, host := range hosts {
			o.hosts[host] = true
		}
		w.mu.Unlock()
		o.removal.RUnlock()
	}
}

// Removing must be called before a resource removes the object, and removed afterwards. It waits for the resources that
// write the object. It returns the hosts on which they have written it: there it has to stay.
func (w *Written) Removing(typeName, id string) (staying []string, removed func()) {
	w.mu.Lock()
	o := w.object(typeName, id)
	w.mu.Unlock()
	o.removal.Lock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(o.hosts)), o.removal.Unlock
}

// KeptForAnother returns the warning that a destroy leaves the object on hosts, because of Removing.
func KeptForAnother(noun string, hosts ...string) diag.Diagnostic {
	return tfdiag.Failure{
		Verb: "delete", Noun: noun, Host: strings.Join(hosts, ", "),
		Happened: "It stays there, because the same apply has written it for another resource",
		Remedy: "If the resource was renamed, or has another key in for_each, a moved block avoids the destroy. With " +
			"create_before_destroy there is nothing to do.",
	}.Warning()
}
