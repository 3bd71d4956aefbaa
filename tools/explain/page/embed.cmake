# cmake -DOUT=page.cc -DDIR=... -P embed.cmake: the page's files as strings, so that `uroce` needs none of them.
set(text "// Made from tools/explain/page.\n#include \"tools/explain/words/page.h\"\n\nnamespace uroce::explain {\n\n")
foreach(part Page_html Page_css Page_js Tracks_js)
  string(TOLOWER ${part} name)
  string(REPLACE "_" "." name ${name})
  file(READ ${DIR}/${name} content)
  string(APPEND text "const std::string_view k${part} = R\"page(${content})page\";\n")
endforeach()
file(WRITE ${OUT} "${text}\n}  // namespace uroce::explain\n")
