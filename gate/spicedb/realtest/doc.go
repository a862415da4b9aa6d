package realtest
