# By UUID, on any host of the fleet:
terraform import virtfleet_virtual_machine.web 4dea22b3-1d52-d8f3-2516-782e98ab3fa0

# Or by name:
terraform import virtfleet_virtual_machine.web web
