# What `cmake --install` and the packages put where. Everything finds the rest relative to itself, so the tree can be moved.
#   bin/uroce, rdma_server, rdma_client, uroce-sim
#   lib/uroce/          libibverbs.so.1 and the broker: not where the loader looks, since only `uroce run` is to find them
#   share/man, share/bash-completion, share/doc, share/uroce
set(private lib/uroce)

install(TARGETS uroce RUNTIME DESTINATION bin COMPONENT command)
install(TARGETS uroce-broker RUNTIME DESTINATION ${private} COMPONENT command)
install(TARGETS uroce_libibverbs LIBRARY DESTINATION ${private} COMPONENT command NAMELINK_COMPONENT command)
install(TARGETS rdma_server rdma_client uroce-sim RUNTIME DESTINATION bin COMPONENT tools)

set(completions ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
install(FILES tools/completion/uroce.bash DESTINATION ${completions} RENAME uroce COMPONENT command)
foreach(tool rdma_server rdma_client uroce-sim)
  install(CODE "file(CREATE_LINK uroce \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${completions}/${tool}\" SYMBOLIC)" COMPONENT tools)
endforeach()
install(FILES tools/wireshark/uroce.lua DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/uroce COMPONENT command)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/uroce COMPONENT command)
